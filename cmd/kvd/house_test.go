package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The rules of the house that are about code rather than imports. Each has a
// canary in TestHouseRuleCanaries: a piece of code that must be caught.

const (
	maxFileLines    = 400
	maxFuncLines    = 80
	maxCommandLines = 150
)

// topLevel is everything that may lie beside cmd and pkg.
func topLevel() []string {
	return []string{
		"cmd", "pkg", "docs", "scripts", "go.mod", "go.sum", "Makefile", ".ci", ".gitignore", ".depguard.yaml",
		"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md",
	}
}

func TestHouseRules(t *testing.T) {
	count := 0
	for _, name := range repoFiles(t) {
		if !strings.HasSuffix(name, ".go") || !(strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "pkg/")) {
			continue
		}
		count++
		src, err := os.ReadFile(filepath.Join(repoRoot, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, broken := range houseViolations(t, name, string(src)) {
			t.Error(broken)
		}
	}
	if count < 20 {
		t.Errorf("only %d Go files were looked at", count)
	}
}

func TestLayout(t *testing.T) {
	for _, name := range repoFiles(t) {
		if broken := layoutViolation(name); broken != "" {
			t.Error(broken)
		}
	}
}

// TestNoMachinePaths keeps paths of whoever's machine this was written on out
// of the tree: they are wrong everywhere else.
func TestNoMachinePaths(t *testing.T) {
	for _, name := range repoFiles(t) {
		raw, err := os.ReadFile(filepath.Join(repoRoot, name))
		if err != nil {
			t.Fatal(err)
		}
		if hit := machinePath(string(raw)); hit != "" {
			t.Errorf("%s mentions %s", name, hit)
		}
	}
}

func machinePath(text string) string {
	if strings.Contains(text, "\x00") {
		return "" // not a text file
	}
	for _, dir := range []string{"work", "root"} {
		if p := "/" + dir + "/"; strings.Contains(text, p) {
			return p
		}
	}
	return ""
}

func TestHouseRuleCanaries(t *testing.T) {
	fn := func(body string) string { return "package p\n\nfunc f() {\n" + body + "\n}\n" }
	canaries := []struct{ name, src, want string }{
		{"pkg/ops/x.go", fn("os.Exit(1)"), "os.Exit"},
		{"cmd/kvd/cli/x.go", fn("os.Exit(1)"), "os.Exit"},
		{"pkg/ops/x.go", fn("_ = recover()"), "recover"},
		{"cmd/kvd/cli/x.go", fn("defer func() { recover() }()"), "recover"},
		{"pkg/ops/x.go", "package p\n\nfunc init() {}\n", "init"},
		{"pkg/ops/x.go", fn("time.Sleep(1)"), "time.Sleep"},
		{"pkg/ops/x.go", fn("log.Fatal(1)"), "log.Fatal"},
		{"pkg/ops/x.go", "package p\n\nvar cache = map[string]int{}\n", "global state"},
		{"cmd/kvd/cli/x.go", "package p\n\nvar mu sync.Mutex\n", "global state"},
		{"pkg/ops/x.go", "package p\n\nvar (\n\ta = errors.New(\"a\")\n\tb = new(int)\n)\n", "b is global state"},
		{"pkg/ops/x.go", fn(strings.Repeat("g()\n", maxFuncLines)), "lines long"},
		{"pkg/ops/x.go", "package p\n" + strings.Repeat("\n", maxFileLines), "lines"},
		{"cmd/kvd/cli/x.go", "package p\n\nfunc newXCmd() {}\n" + strings.Repeat("\n", maxCommandLines), "command file"},
	}
	for _, c := range canaries {
		got := houseViolations(t, c.name, c.src)
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, c.want) }) {
			t.Errorf("%s with %q: want a complaint about %s, got %v", c.name, c.src[:min(60, len(c.src))], c.want, got)
		}
	}
	for name, src := range map[string]string{
		"cmd/kvd/main.go":    fn("os.Exit(1)"),
		"pkg/ops/x_test.go":  fn("time.Sleep(1)\n" + strings.Repeat("g()\n", maxFuncLines)),
		"pkg/ops/x.go":       fn(strings.Repeat("g()\n", maxFuncLines-3)),
		"pkg/ops/init.go":    "package p\n\nfunc (x) init() {}\n",
		"pkg/ops/comment.go": "package p\n\n// os.Exit(1) and recover() and time.Sleep\n",
		"pkg/ops/fixed.go":   "package p\n\nvar errX = errors.New(\"x\")\n\nvar names = [...]string{\"a\"}\n\n//go:embed x.html\nvar page string\n\nfunc f() { var n int; _ = n }\n",
	} {
		if got := houseViolations(t, name, src); len(got) > 0 {
			t.Errorf("%s is fine, but: %v", name, got)
		}
	}
	for _, name := range []string{"tools/x.go", "pkg/util/x.go", "pkg/ops/helpers/x.go", "internal/x.go", "pkg/other/x.go", "x.sh"} {
		if layoutViolation(name) == "" {
			t.Errorf("%s passes the layout", name)
		}
	}
	if machinePath("see /"+"work/x") == "" || machinePath("see /"+"root/x") == "" || machinePath("homework/x") != "" {
		t.Error("machinePath does not tell machine paths")
	}
}

// houseViolations says what is wrong with one Go file.
func houseViolations(t *testing.T, name, src string) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, "_test.go") {
		return nil
	}
	var broken []string
	say := func(pos token.Pos, what string) { broken = append(broken, fset.Position(pos).String()+": "+what) }
	lines := strings.Count(src, "\n")
	if lines > maxFileLines {
		say(file.Pos(), "more than 400 lines: one idea per file")
	}
	for _, decl := range file.Decls {
		for _, v := range globalState(name, decl) {
			say(v.Pos(), v.Name+" is global state: everybody shares it; pass it, or make a function of it")
		}
	}
	isMain := name == "cmd/kvd/main.go"
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			length := fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
			if length > maxFuncLines {
				say(n.Pos(), n.Name.Name+" is more than 80 lines long")
			}
			if n.Name.Name == "init" && n.Recv == nil {
				say(n.Pos(), "init(): work at start-up that no caller asked for")
			}
			if isCommandFile(name, n.Name.Name) && lines > maxCommandLines {
				say(n.Pos(), "a command file of more than 150 lines: the work belongs into pkg")
			}
		case *ast.CallExpr:
			switch called(n) {
			case "os.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln":
				if !isMain {
					say(n.Pos(), called(n)+" outside main.go: return an error")
				}
			case "recover":
				if !isMain {
					say(n.Pos(), "recover() outside main: a bug must be seen")
				}
			case "time.Sleep":
				if strings.HasPrefix(name, "pkg/") {
					say(n.Pos(), "time.Sleep: select on the context and a timer")
				}
			}
		}
		return true
	})
	return broken
}

// globalState lists the package-level variables of a declaration that are more
// than the name of something that stays as it is.
func globalState(file string, decl ast.Decl) []*ast.Ident {
	vars, ok := decl.(*ast.GenDecl)
	if !ok || vars.Tok != token.VAR || embeds(vars.Doc) {
		return nil
	}
	var found []*ast.Ident
	for _, spec := range vars.Specs {
		spec := spec.(*ast.ValueSpec)
		for i, v := range spec.Names {
			if v.Name == "_" || slices.Contains(fixedAllTheSame(), path.Dir(file)+"."+v.Name) {
				continue
			}
			if i >= len(spec.Values) || !isFixed(spec.Values[i]) {
				found = append(found, v)
			}
		}
	}
	return found
}

// fixedAllTheSame are variables for which there is no other way.
func fixedAllTheSame() []string {
	return []string{
		"cmd/kvd/cli.version",         // the linker sets it
		"pkg/ops/progress.Discard",    // a Sink that holds nothing, as io.Discard
		"pkg/server/servertest.build", // one build for all tests of a process is what it is for
	}
}

func embeds(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// isFixed tells a value that nobody changes: an error to compare with, a compiled
// expression, a table, an array of constants.
func isFixed(value ast.Expr) bool {
	switch v := value.(type) {
	case *ast.CallExpr:
		return slices.Contains([]string{"errors.New", "regexp.MustCompile", "crc32.MakeTable"}, called(v))
	case *ast.CompositeLit:
		array, ok := v.Type.(*ast.ArrayType)
		return ok && array.Len != nil
	}
	return false
}

// isCommandFile tells a file of cmd/kvd/cli that makes a command; root.go makes
// the tree.
func isCommandFile(name, fn string) bool {
	return filepath.ToSlash(filepath.Dir(name)) == "cmd/kvd/cli" && !strings.HasSuffix(name, "/root.go") &&
		strings.HasPrefix(fn, "new") && strings.HasSuffix(fn, "Cmd")
}

// called names the function of a call: "recover", "os.Exit".
func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}

func layoutViolation(name string) string {
	parts := strings.Split(name, "/")
	if !slices.Contains(topLevel(), parts[0]) {
		return name + ": nothing but cmd, pkg, docs, scripts and the customary files lies at the top"
	}
	if parts[0] == "pkg" && (len(parts) < 3 || !slices.Contains([]string{"server", "ops", "diagnose", "loadgen"}, parts[1])) {
		return name + ": pkg holds server, ops, diagnose and loadgen"
	}
	for _, dir := range parts[:len(parts)-1] {
		if slices.Contains([]string{"util", "utils", "helper", "helpers", "common", "misc"}, dir) {
			return name + ": a folder is named after what is in it"
		}
	}
	return ""
}

// repoFiles lists the files of the repository, by path from its root. In a
// checkout git knows them; in an unpacked archive all that lies there counts,
// but for what the Makefile builds.
func repoFiles(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(repoRoot, ".git")); err == nil {
		cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
		cmd.Dir = repoRoot
		if out, err := cmd.Output(); err == nil {
			names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
			return slices.DeleteFunc(names, func(n string) bool { // deleted, but not yet committed
				_, err := os.Stat(filepath.Join(repoRoot, n))
				return err != nil
			})
		}
	}
	var names []string
	err := filepath.WalkDir(repoRoot, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(repoRoot, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == ".git" || rel == "bin" || rel == "dist" {
				return filepath.SkipDir
			}
			return nil
		}
		names = append(names, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
