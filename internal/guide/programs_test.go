package guide

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goBlock is a ```go block of a page.
type goBlock struct {
	page string
	line int // of the page, where the code begins
	code string
}

func (b goBlock) isProgram() bool { return strings.HasPrefix(b.code, "package main\n") }

// goBlocks returns the blocks of README.md and docs/*.md, in order.
func goBlocks(t *testing.T) []goBlock {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []goBlock
	for _, page := range append([]string{"../../README.md"}, pages...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, blocksOf(strings.TrimPrefix(page, "../../"), string(text))...)
	}
	return found
}

func blocksOf(page, text string) []goBlock {
	var found []goBlock
	for _, at := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatchIndex(text, -1) {
		found = append(found, goBlock{page, 1 + strings.Count(text[:at[2]], "\n"), text[at[2]:at[3]]})
	}
	return found
}

// around declares what the pieces of code in the pages take for granted. Whoever writes
// a new piece with a new name adds it here.
const around = `package snippets

import (
	"context"
	"database/sql"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/later-queue/later"
	"github.com/later-queue/later/postgres"
	"github.com/later-queue/later/worker"
)

type OrderConfirmation struct{ OrderID int64 }

func (OrderConfirmation) Kind() string { return "order.confirm" }

type SyncAccount struct {
	AccountID int64 ` + "`json:\"account_id\"`" + `
	Full      bool  ` + "`json:\"full\"`" + `
}

func (SyncAccount) Kind() string { return "account.sync" }

var (
	ctx       context.Context
	pool      *pgxpool.Pool
	db        *sql.DB
	store     *postgres.Store
	handlers  *later.Handlers
	w         *worker.Worker
	job       *later.Job[OrderConfirmation]
	id, total int64
	customer  string
	request   *http.Request
	mails     []string
	last      int
	pager     interface{ Notify(context.Context, string, int64) }
)

func confirm(context.Context, *later.Job[OrderConfirmation]) error { return nil }
func send(context.Context, string) error                           { return nil }
`

// imports are the packages that a piece of code may name without importing them.
var imports = []string{
	"context", "database/sql", "encoding/json", "errors", "fmt", "log", "log/slog", "net/http", "os", "os/signal", "syscall", "testing", "time",
	"github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool",
	"github.com/later-queue/later", "github.com/later-queue/later/memory", "github.com/later-queue/later/postgres",
	"github.com/later-queue/later/sqlite", "github.com/later-queue/later/worker",
}

// piece is the source file of a block that is no program: its statements in a function.
func (b goBlock) piece() string {
	var text strings.Builder
	text.WriteString("package snippets\n\nimport (\n")
	for _, path := range imports {
		name := path[strings.LastIndex(path, "/")+1:]
		if name == "v5" {
			name = "pgx"
		}
		if regexp.MustCompile(`(^|[^.\w"])` + name + `\.`).MatchString(b.code) {
			fmt.Fprintf(&text, "\t%s %q\n", name, path)
		}
	}
	fmt.Fprintf(&text, ")\n\nfunc _() error {\n//line %s:%d\n%s\treturn nil\n}\n", b.page, b.line, b.code)
	return text.String()
}

// folder makes a module of a user's own, outside of ours, with the given files. What is
// internal in ours is out of its reach.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	const ours = "module github.com/later-queue/later\n"
	if !strings.HasPrefix(string(mod), ours) {
		t.Fatal("go.mod does not begin with its module's name")
	}
	// Our requirements become the user's, so that nothing has to be looked up.
	files["go.mod"] = "module example.org/reader\n" + strings.TrimPrefix(string(mod), ours) + fmt.Sprintf(
		"\nrequire github.com/later-queue/later v0.0.0\n\nreplace github.com/later-queue/later => %q\n", root)
	files["go.sum"] = string(sum)
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// build compiles the module in dir and returns the compiler's errors, one a line.
func build(t *testing.T, dir string) []string {
	t.Helper()
	// -e: all errors, for some of them are to be overlooked.
	cmd := exec.Command("go", "build", "-mod=mod", "-gcflags=-e", "-o", os.DevNull, ".")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			found = append(found, line)
		}
	}
	if len(found) == 0 {
		t.Fatalf("go build: %v", err)
	}
	return found
}

func TestPrograms(t *testing.T) {
	all := goBlocks(t)
	if !slices.ContainsFunc(all, func(b goBlock) bool { return b.page == "README.md" && b.isProgram() }) {
		t.Error("README.md has no whole Go program: a reader cannot try anything")
	}
	for _, b := range all {
		if !b.isProgram() {
			continue
		}
		t.Run(fmt.Sprintf("%s:%d", b.page, b.line), func(t *testing.T) {
			for _, fault := range build(t, folder(t, map[string]string{"main.go": b.code})) {
				t.Error(fault)
			}
		})
	}
}

func TestPiecesOfCode(t *testing.T) {
	for _, fault := range pieceFaults(t, goBlocks(t)) {
		t.Error(fault)
	}
}

// pieceFaults compiles all blocks that are no programs, together.
func pieceFaults(t *testing.T, all []goBlock) []string {
	t.Helper()
	files := map[string]string{"around.go": around}
	for i, b := range all {
		if !b.isProgram() {
			files[fmt.Sprintf("piece%d.go", i)] = b.piece()
		}
	}
	// A piece shows how a value is come by, and not always what is done with it.
	return slices.DeleteFunc(build(t, folder(t, files)), func(line string) bool {
		return strings.Contains(line, "declared and not used")
	})
}

func TestBlocksThatDoNotCompile(t *testing.T) {
	t.Run("a fault in a piece is found at its line of the page", func(t *testing.T) {
		page := "Text.\n\n```go\nerr := store.EnqueueNothing(ctx)\n```\n"
		got := pieceFaults(t, blocksOf("docs/x.md", page))
		if len(got) != 1 || !strings.Contains(got[0], "docs/x.md:4") || !strings.Contains(got[0], "EnqueueNothing") {
			t.Errorf("got %q, want one fault at docs/x.md:4", got)
		}
	})
	t.Run("a program may not use what is internal", func(t *testing.T) {
		code := "package main\n\nimport _ \"github.com/later-queue/later/internal/migration\"\n\nfunc main() {}\n"
		if got := build(t, folder(t, map[string]string{"main.go": code})); len(got) == 0 {
			t.Error("got no fault, want one")
		}
	})
}
