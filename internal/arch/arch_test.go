package arch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// rule says what one package may import besides the standard library.
type rule struct {
	pkg    string   // a folder of this module; "." is the root package; "x/..." is x and all below
	ours   []string // packages of this module, written in the same way; "*" is any
	others []string // packages of other modules, written in the same way
}

// rules are the architecture: arrows point down only. A new package needs a line here.
var rules = []rule{
	// The domain: it knows no database and nothing that is not Go's own.
	{".", nil, nil},

	// The runtime and the ways to run a handler know the domain, and no database.
	{"worker", []string{"."}, nil},
	{"command", []string{"."}, nil},
	{"endpoint", []string{"."}, nil},

	// The stores know the domain and their driver, and neither each other nor the runtime.
	{"postgres", []string{".", "internal/admit", "internal/combine", "internal/migration", "internal/turns"}, []string{"github.com/jackc/pgx/v5/...", "github.com/jackc/puddle/v2"}},
	{"sqlite", []string{".", "internal/admit", "internal/migration", "internal/turns"}, []string{"modernc.org/sqlite/..."}},
	{"memory", []string{".", "internal/admit", "internal/turns"}, nil},
	{"internal/migration", nil, nil},
	{"internal/combine", nil, nil},
	{"internal/turns", []string{"."}, nil},
	{"internal/admit", []string{"."}, nil},

	// The contract is tested through the contract.
	{"storetest", []string{"."}, []string{"pgregory.net/rapid"}},

	// Parts of the command, each knowing as little as it can.
	{"internal/age", nil, nil},
	{"internal/spelling", nil, nil},
	{"internal/terminal", nil, []string{"github.com/fatih/color", "github.com/rivo/uniseg", "golang.org/x/term"}},
	{"internal/request", []string{".", "internal/spelling"}, nil},
	{"internal/why", []string{".", "internal/age"}, nil},
	{"internal/open", []string{".", "postgres", "sqlite", "internal/spelling"}, []string{"github.com/jackc/pgx/v5/..."}},
	{"internal/bench", []string{".", "worker", "postgres", "sqlite", "internal/open"}, []string{"github.com/jackc/pgx/v5/...", "golang.org/x/sys/unix"}},

	// The tops: they put everything together. Only the command line knows its libraries.
	{"cmd/later", []string{"*"}, []string{"github.com/spf13/cobra"}},
	{"internal/cli", []string{"*"}, []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/schollz/progressbar/v3"}},
	{"internal/demo/...", []string{"*"}, []string{"github.com/jackc/pgx/v5/..."}},
	{"chaos/...", []string{"*"}, []string{"github.com/jackc/pgx/v5/..."}},

	// Examples are users: nothing internal.
	{"examples/...", []string{".", "worker", "command", "endpoint", "postgres", "sqlite", "memory"}, []string{"github.com/jackc/pgx/v5/...", "github.com/lib/pq"}},

	// What the tests stand on.
	{"internal/pgserver", nil, []string{"github.com/jackc/pgx/v5"}},
	{"internal/testdb", []string{"internal/pgserver"}, []string{"github.com/jackc/pgx/v5"}},
	{"internal/testdb/run", []string{"internal/pgserver", "internal/testdb"}, nil},
	{"internal/gotest", nil, nil},
	{"internal/guide", nil, nil},
	{"internal/arch", nil, nil},
}

// testsOnly are the packages that may import package testing, and that no program may
// contain.
var testsOnly = []string{"storetest", "internal/testdb"}

// covers reports whether the pattern of a rule means the package.
func covers(pattern, name string) bool {
	if below, tree := strings.CutSuffix(pattern, "/..."); tree {
		return name == below || strings.HasPrefix(name, below+"/")
	}
	return pattern == name || pattern == "*"
}

func coversAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, name) })
}

// short is the folder of a package of this module, or ok false.
func short(path string) (name string, ok bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// violations are the imports that no rule allows, each naming both ends.
func violations(rules []rule, pkgs []pkg) []string {
	standard := map[string]bool{"C": true, "unsafe": true}
	for _, p := range pkgs {
		standard[p.ImportPath] = standard[p.ImportPath] || p.Standard
	}
	var found []string
	for _, p := range pkgs {
		name, ok := short(p.ImportPath)
		if !ok {
			continue
		}
		at := slices.IndexFunc(rules, func(r rule) bool { return covers(r.pkg, name) })
		if at < 0 {
			found = append(found, fmt.Sprintf("%s has no line in the table of rules", name))
			continue
		}
		r := rules[at]
		for _, path := range p.Imports {
			target, ours := short(path)
			switch {
			case path == "testing" && !coversAny(testsOnly, name):
				found = append(found, fmt.Sprintf("%s imports testing", name))
			case standard[path]:
			case ours && !covers(r.pkg, target) && !coversAny(r.ours, target):
				found = append(found, fmt.Sprintf("%s imports %s; of this module it may import %v", name, target, r.ours))
			case ours && coversAny(testsOnly, target) && !strings.HasPrefix(name, "internal/testdb"):
				found = append(found, fmt.Sprintf("%s imports %s, which is for tests", name, target))
			case !ours && !coversAny(r.others, path):
				found = append(found, fmt.Sprintf("%s imports %s; of other modules it may import %v", name, path, r.others))
			}
		}
	}
	return found
}

func TestImportsPointDown(t *testing.T) {
	pkgs := list(t, "-deps", "./...")
	for _, v := range violations(rules, pkgs) {
		t.Error(v)
	}
	t.Run("every rule is about a package that exists", func(t *testing.T) {
		for _, r := range rules {
			if !slices.ContainsFunc(pkgs, func(p pkg) bool {
				name, ok := short(p.ImportPath)
				return ok && covers(r.pkg, name)
			}) {
				t.Errorf("there is no package %s: take its line out", r.pkg)
			}
		}
	})
}

func TestNoCgo(t *testing.T) {
	for _, p := range list(t, "-deps", "./...") {
		if !p.Standard && len(p.CgoFiles) > 0 {
			t.Errorf("%s needs a C compiler for %v", p.ImportPath, p.CgoFiles)
		}
	}
}

// TestViolations tests the test: a wrong import is found and named.
func TestViolations(t *testing.T) {
	table := []rule{
		{".", nil, nil},
		{"worker", []string{"."}, nil},
		{"sqlite", []string{"."}, []string{"modernc.org/sqlite/..."}},
		{"storetest", nil, nil},
		{"chaos/...", []string{"*"}, nil},
	}
	fmtPkg := pkg{ImportPath: "fmt", Standard: true}
	in := func(name string, imports ...string) pkg {
		return pkg{ImportPath: strings.TrimSuffix(module+"/"+name, "/"), Imports: imports}
	}
	for _, c := range []struct {
		behaviour string
		pkg       pkg
		want      string // "" is none; else what the message contains
	}{
		{"the standard library is open to all", in("", "fmt"), ""},
		{"a package may import what lies below", in("worker", module, "fmt"), ""},
		{"a package may import itself and its tree", in("chaos/kill", module+"/chaos", module+"/sqlite"), ""},
		{"a driver with its subpackages", in("sqlite", "modernc.org/sqlite", "modernc.org/sqlite/lib"), ""},
		{"an arrow that points up", in("", module+"/worker"), ". imports worker"},
		{"an arrow that points sideways", in("worker", module+"/sqlite"), "worker imports sqlite"},
		{"a stranger", in("worker", "github.com/x/y"), "worker imports github.com/x/y"},
		{"a stranger whose name begins like a driver", in("sqlite", "modernc.org/sqlite3"), "sqlite imports modernc.org/sqlite3"},
		{"a package without a rule", in("new"), "new has no line"},
		{"testing in a program", in("worker", "testing"), "worker imports testing"},
		{"a test suite in a program", in("chaos", module+"/storetest"), "chaos imports storetest"},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			got := violations(table, []pkg{fmtPkg, c.pkg})
			if c.want == "" && len(got) == 0 {
				return
			}
			if c.want == "" || len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
