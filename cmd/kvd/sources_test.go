package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A document names the source that a statement about etcd rests on as
// `file.go` (`name`, `name = value`): relative to etcd's server module, or, with
// one of these in front, to another module. This holds them against the modules
// of the very versions that kvd is built with.
func sourceModules() map[string]string {
	return map[string]string{
		"":        "go.etcd.io/etcd/server/v3",
		"api/":    "go.etcd.io/etcd/api/v3",
		"client/": "go.etcd.io/etcd/client/v3",
		"raft/":   "go.etcd.io/raft/v3",
		"bbolt/":  "go.etcd.io/bbolt",
	}
}

var (
	citation = regexp.MustCompile("`([\\w/.-]+\\.go)` \\(((?:`[^`]+`(?:, )?)+)\\)")
	goFile   = regexp.MustCompile("`[\\w/.-]+\\.go`")
	quoted   = regexp.MustCompile("`([^`]+)`")
)

func TestCitedSources(t *testing.T) {
	t.Parallel()
	dirs := moduleDirs(t)
	for page, least := range map[string]int{"docs/how-etcd-works.md": 30, "docs/formats/snapshot.md": 20, "docs/formats/wal.md": 25} {
		checkCitations(t, dirs, page, least)
	}
}

func checkCitations(t *testing.T, dirs map[string]string, page string, least int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repoRoot, page))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(raw)), " ")
	cited := citation.FindAllStringSubmatch(text, -1)
	if all := goFile.FindAllString(text, -1); len(all) != len(cited) || len(cited) < least {
		t.Errorf("%s names %d files, %d of them with what is in them", page, len(all), len(cited))
	}
	for _, c := range cited {
		path, src := readSource(t, dirs, c[1])
		if src == "" {
			t.Errorf("%s: there is no %s", page, c[1])
			continue
		}
		for _, q := range quoted.FindAllStringSubmatch(c[2], -1) {
			if !inSource(t, path, src, q[1]) {
				t.Errorf("%s: %s has no %s", page, c[1], q[1])
			}
		}
	}
}

// moduleDirs are the folders of the modules, by the prefix in a citation.
func moduleDirs(t *testing.T) map[string]string {
	t.Helper()
	dirs := map[string]string{}
	for prefix, module := range sourceModules() {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output() //nolint:gosec // constants
		if err != nil {
			t.Fatalf("%s: %v", module, err)
		}
		dirs[prefix] = strings.TrimSpace(string(out))
	}
	return dirs
}

func readSource(t *testing.T, dirs map[string]string, name string) (path, src string) {
	t.Helper()
	first, rest, _ := strings.Cut(name, "/")
	dir, ok := dirs[first+"/"]
	if !ok {
		dir, rest = dirs[""], name
	}
	path = filepath.Join(dir, filepath.FromSlash(rest))
	raw, err := os.ReadFile(path)
	if err != nil {
		return path, ""
	}
	return path, string(raw)
}

// inSource tells whether a file declares a name, or says "name = value" just so.
func inSource(t *testing.T, path, src, what string) bool {
	t.Helper()
	if !token.IsIdentifier(what) {
		return strings.Contains(strings.Join(strings.Fields(src), " "), what)
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.FuncDecl:
			found = found || d.Name.Name == what
			return false
		case *ast.TypeSpec:
			found = found || d.Name.Name == what
		case *ast.ValueSpec:
			for _, name := range d.Names {
				found = found || name.Name == what
			}
		case *ast.Field:
			for _, name := range d.Names {
				found = found || name.Name == what
			}
		}
		return !found
	})
	return found
}

func TestCitedSourcesCatch(t *testing.T) {
	const src = "package p\n\nconst limit = 5000\n\ntype s struct{ field int }\n\nfunc (s) do() { local := 1; _ = local }\n"
	for what, want := range map[string]bool{
		"limit": true, "field": true, "do": true, "s": true, "limit = 5000": true,
		"limit = 500 ": false, "limit = 6000": false, "local": false, "other": false,
	} {
		if got := inSource(t, "x.go", src, what); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
}
