// Package drive runs contenders as processes of their own, and reads what they say.
package drive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/later-queue/later/lab/contender"
)

// text fills the payload up to about 110 bytes, with the number and the keys.
const text = "a no-op job, as long as an ordinary job's arguments are: an order, a customer, a sum"

// Launcher starts the processes of one contender in one setting.
type Launcher struct {
	// Program is the command, to which the verb is appended.
	Program []string
	// Folder is where it is run.
	Folder string
	// Env is what it is told.
	Env contender.Env
	// Handler is how long its handlers take on average; 0 is no time.
	Handler time.Duration
	// Messages gets what the processes say to people.
	Messages io.Writer
}

// Root returns the folder of the module lab: the working folder, the folder lab in
// it, or one above.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		for _, candidate := range []string{dir, filepath.Join(dir, "lab")} {
			text, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err == nil && strings.HasPrefix(string(text), "module github.com/later-queue/later/lab\n") {
				return candidate, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the folder lab of the repository is neither here nor above: run this inside the repository")
		}
		dir = filepath.Dir(dir)
	}
}

// command makes the process of one verb.
func (l *Launcher) command(verb string, args []string) *exec.Cmd {
	words := append(append(append([]string{}, l.Program...), verb), args...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = l.Folder
	payload, err := json.Marshal(contender.Payload{Text: text, Tenant: l.Env.Tenant})
	if err != nil {
		panic(err) // two fields, always
	}
	cmd.Env = append(os.Environ(),
		"LAB_URL="+l.Env.URL,
		"LAB_SETTINGS="+l.Env.Settings,
		"LAB_PROCESSES="+strconv.Itoa(max(l.Env.Processes, 1)),
		"LAB_PAYLOAD="+string(payload),
		"LAB_DIR="+l.Env.Dir,
		"LAB_TENANT="+l.Env.Tenant,
	)
	if l.Handler > 0 {
		cmd.Env = append(cmd.Env, "LAB_HANDLER="+l.Handler.String())
	}
	cmd.Stderr = l.Messages
	// A group of its own, so that what it starts can be ended with it. It ends with
	// its input, which ends with us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// Call runs a verb to its end and returns its last answer. When ctx ends before, the
// process is killed.
func (l *Launcher) Call(ctx context.Context, verb string, args ...string) (contender.Answer, error) {
	var answer contender.Answer
	cmd := l.command(verb, args)
	out := new(bytes.Buffer)
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		return answer, fmt.Errorf("%s: %w", verb, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return answer, fmt.Errorf("%s %s: %w", verb, strings.Join(args, " "), err)
		}
	case <-ctx.Done():
		kill(cmd)
		<-ended
		return answer, fmt.Errorf("%s %s: %w", verb, strings.Join(args, " "), context.Cause(ctx))
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		answer = contender.Answer{}
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			return answer, fmt.Errorf("%s said %q: %w", verb, lines.Text(), err)
		}
	}
	return answer, lines.Err()
}

// kill ends a process and those that it has started.
func kill(cmd *exec.Cmd) {
	// It may have ended by itself; then there is nothing to kill.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
