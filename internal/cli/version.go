package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is set by the release's build (-ldflags "-X …internal/cli.Version=v1.2.3");
// empty: the build information has it.
var Version string

func versionCommand(a *App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    `Print the version of this program, and of the Go that built it.`,
		Example: `  later version`,
		Args:    arguments(),
		RunE: func(*cobra.Command, []string) error {
			version, commit := buildVersion()
			if a.flags.json {
				return a.printJSON(struct {
					Version string `json:"version"`
					Commit  string `json:"commit"`
					Go      string `json:"go"`
					OS      string `json:"os"`
					Arch    string `json:"arch"`
				}{version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH})
			}
			return a.printf("%s\n", versionLine())
		},
	}
}

// versionLine is what version and --version print.
func versionLine() string {
	version, _ := buildVersion()
	return fmt.Sprintf("later %s (%s, %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func buildVersion() (version, commit string) {
	version = Version
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, ""
	}
	if version == "" {
		version = info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			commit = setting.Value
		}
	}
	return version, commit
}
