package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What `make test` leaves out `make test-more` runs: with the pattern that the other
// skips, in every package that has such a test. CI runs both.
func TestTheHalvesAreTheWhole(t *testing.T) {
	first, second := testCommand(t, "test"), testCommand(t, "test-more")
	skipped, run := flagOf(first, "-skip"), flagOf(second, "-run")
	if skipped == "" || skipped != run {
		t.Fatalf("make test skips %q, make test-more runs %q", skipped, run)
	}
	if !slices.Contains(first, "./...") || slices.Contains(first, "-run") || slices.Contains(second, "-skip") {
		t.Errorf("more is left out than the pattern says: %q, %q", first, second)
	}
	pattern, seen := regexp.MustCompile(skipped), 0
	for _, name := range repoFiles(t) {
		if !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "scripts/") { // modules of their own
			continue
		}
		for _, test := range testsIn(t, name) {
			if !pattern.MatchString(test) {
				continue
			}
			seen++
			if !slices.Contains(second, "./"+path.Dir(name)+"/") {
				t.Errorf("%s of %s is run by neither: the second command is %q", test, name, second)
			}
			if strings.HasSuffix(name, "_long_test.go") {
				t.Errorf("%s of %s is built by make test-long alone, which has no halves", test, name)
			}
		}
	}
	if seen == 0 {
		t.Error("the second half is empty")
	}
	ci, err := os.ReadFile(filepath.Join(repoRoot, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^step \S+ make test-more\b`).Match(ci) {
		t.Error(".ci/run does not run the second half")
	}
	folders, err := filepath.Glob("testdata/script*")
	if want := []string{"testdata/script", "testdata/script-long", "testdata/script-more"}; err != nil || !slices.Equal(folders, want) {
		t.Errorf("folders of scripts: %q, and tests are there for %q", folders, want)
	}
}

// testCommand is the words of the go test command that a target of the Makefile runs.
func testCommand(t *testing.T, target string) []string {
	t.Helper()
	cmd := exec.Command("make", "-n", "--no-print-directory", "-C", repoRoot, target)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") })
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("make -n %s: %v", target, err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, " test ") && strings.Contains(line, "-timeout") {
			return strings.Fields(strings.ReplaceAll(line, "'", ""))
		}
	}
	t.Fatalf("make %s runs no go test:\n%s", target, out)
	return nil
}

func flagOf(words []string, flag string) string {
	if i := slices.Index(words, flag); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

// testsIn lists what go test runs of a file.
func testsIn(t *testing.T, name string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repoRoot, name), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && regexp.MustCompile(`^(Test|Fuzz|Example)`).MatchString(f.Name.Name) {
			tests = append(tests, f.Name.Name)
		}
	}
	return tests
}
