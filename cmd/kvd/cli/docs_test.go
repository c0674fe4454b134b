package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kvd/pkg/server"
)

// update has TestCommandDocs write the pages instead of comparing them. `make
// docs` gives it. The generator is a test so that nothing of it is in the binary.
var update = flag.Bool("update", false, "write docs/commands instead of comparing it")

const docsDir = "../../../docs"

// TestCommandDocs holds docs/commands against the command tree: a page per
// command, none that no command belongs to.
func TestCommandDocs(t *testing.T) {
	want := commandPages(testRoot())
	dir := filepath.Join(docsDir, "commands")
	if *update {
		writePages(t, dir, want)
		return
	}
	have, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range have {
		if _, ok := want[filepath.Base(path)]; !ok {
			t.Errorf("%s describes no command: run `make docs`", path)
		}
	}
	for name, page := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != page {
			t.Errorf("docs/commands/%s is out of date (%v): run `make docs`", name, err)
		}
	}
	if len(want) < 10 {
		t.Errorf("only %d pages: the command tree was not walked", len(want))
	}
}

// testRoot is the command tree as no machine's environment can change it.
func testRoot() *cobra.Command {
	app := &App{
		IO:      &IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, Err: &bytes.Buffer{}},
		Getenv:  func(string) string { return "" },
		Environ: func() []string { return nil },
		Global:  defaultGlobalFlags(),
	}
	return newRootCmd(app, contents())
}

func writePages(t *testing.T, dir string, pages map[string]string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// commandPages makes the pages, by file name.
func commandPages(root *cobra.Command) map[string]string {
	pages := map[string]string{}
	var index strings.Builder
	index.WriteString("# Commands\n\nMade from the command tree by `make docs`; do not edit.\n\n| command | |\n|---|---|\n")
	walk(root, func(c *cobra.Command) {
		name := pageName(c)
		pages[name] = commandPage(c)
		fmt.Fprintf(&index, "| [`%s`](%s) | %s |\n", c.CommandPath(), name, c.Short)
	})
	pages["README.md"] = index.String()
	return pages
}

// walk visits a command and everything below it that users see.
func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			walk(sub, visit)
		}
	}
}

func pageName(c *cobra.Command) string {
	return strings.ReplaceAll(c.CommandPath(), " ", "_") + ".md"
}

func commandPage(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n", c.CommandPath(), strings.TrimSuffix(c.Short, "."))
	if c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", c.Long)
	}
	block := func(title, text string) {
		if text = strings.TrimRight(text, "\n "); text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n```\n%s\n```\n", title, text)
		}
	}
	usage := c.UseLine()
	if !c.HasParent() || c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " [command]"
	}
	block("Usage", usage)
	block("Examples", c.Example)
	if c.HasAvailableSubCommands() {
		b.WriteString("\n## Commands\n\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "- [`%s`](%s): %s\n", sub.CommandPath(), pageName(sub), sub.Short)
			}
		}
	}
	c.InitDefaultHelpFlag()
	if c.DisableFlagParsing {
		block("Flags", server.FlagUsages())
	} else {
		block("Flags", c.LocalFlags().FlagUsages())
		block("Global flags", c.InheritedFlags().FlagUsages())
	}
	if cost := c.Annotations[annotationCost]; cost != "" {
		fmt.Fprintf(&b, "\n## Cost\n\n%s\n", cost)
	}
	block("Exit status", c.Annotations[annotationExit])
	return b.String()
}

// TestEveryCommandKeepsTheContract is the contract of design and CONTRIBUTING:
// examples, what it costs, what its exit status means, -o, and a script.
func TestEveryCommandKeepsTheContract(t *testing.T) {
	scripts, err := filepath.Glob("../testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../testdata/script-more/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	scripts = append(scripts, more...)
	leaves := 0
	walk(testRoot(), func(c *cobra.Command) {
		if c.HasAvailableSubCommands() {
			return
		}
		leaves++
		for _, broken := range contractViolations(c, scripts) {
			t.Errorf("%s: %s", c.CommandPath(), broken)
		}
	})
	if leaves < 5 {
		t.Errorf("only %d commands were looked at", leaves)
	}
	bare := &cobra.Command{Use: "bare", Run: func(*cobra.Command, []string) {}}
	if got := contractViolations(bare, nil); len(got) != 7 {
		t.Errorf("canary: a command with nothing breaks 7 rules, got %q", got)
	}
}

func contractViolations(c *cobra.Command, scripts []string) []string {
	var broken []string
	require := func(ok bool, what string) {
		if !ok {
			broken = append(broken, what)
		}
	}
	require(c.Short != "", "no short description")
	require(c.Long != "", "no long description")
	require(strings.Contains(c.Example, c.CommandPath()), "no example that runs it")
	require(c.Annotations[annotationCost] != "", "help does not say what it costs")
	require(strings.Contains(c.Annotations[annotationExit], "0 "), "no EXIT STATUS")
	// kvd serve reads etcd's flags and prints no result.
	require(c.DisableFlagParsing || c.InheritedFlags().ShorthandLookup("o") != nil, "no -o")
	name := strings.ReplaceAll(commandName(c), " ", "_")
	require(slices.ContainsFunc(scripts, func(path string) bool {
		base := strings.TrimSuffix(filepath.Base(path), ".txtar")
		return base == name || strings.HasPrefix(base, name+"_")
	}), "no script "+name+"*.txtar in testdata/script or script-more")
	return broken
}

// TestExitCodes holds docs/exit-codes.md against exit.go.
func TestExitCodes(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(docsDir, "exit-codes.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[int]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| ([a-z]*) *\|`).FindAllStringSubmatch(string(raw), -1) {
		code, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := documented[code]; twice {
			t.Errorf("docs/exit-codes.md lists %d twice", code)
		}
		documented[code] = m[2]
	}
	seen := map[int]bool{}
	for _, e := range exitCodes() {
		if seen[e.Code] {
			t.Errorf("exit code %d has two meanings", e.Code)
		}
		seen[e.Code] = true
		if kind, ok := documented[e.Code]; !ok || kind != string(e.Kind) {
			t.Errorf("exit code %d is %q in exit.go and %q in docs/exit-codes.md", e.Code, e.Kind, kind)
		}
		delete(documented, e.Code)
	}
	delete(documented, 143) // the other signal, same row in exit.go
	if len(documented) > 0 {
		t.Errorf("docs/exit-codes.md has codes that exit.go has not: %v", documented)
	}
}
