// Package lint_test proves that each rule of .depguard.yaml catches something:
// it builds a module of nothing but forbidden imports and lets the real linter
// loose on it. A rule that lets its canary pass is no rule.
package lint_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type canary struct{ list, file, imports string }

func TestEveryRuleCatchesItsCanary(t *testing.T) {
	rules, canaries := readRules(t), readCanaries(t)
	caught := runDepguard(t, canaries)
	proved := map[string]bool{}
	for _, c := range canaries {
		lists := caught[c.file+" "+c.imports]
		if c.list == "-" {
			if len(lists) > 0 {
				t.Errorf("%s may import %s, but %v forbids it", c.file, c.imports, keys(lists))
			}
			continue
		}
		if _, ok := rules[c.list]; !ok {
			t.Errorf("canaries.txt names list %q, which .depguard.yaml has not", c.list)
		}
		if !lists[c.list] {
			t.Errorf("%s importing %s is not caught by %q (caught by %v)", c.file, c.imports, c.list, keys(lists))
		}
		proved[c.list] = true
	}
	for name := range rules {
		if !proved[name] {
			t.Errorf("list %q has no canary in canaries.txt", name)
		}
	}
}

// TestABrokenRuleIsNoticed takes each list out in turn by pointing it at no
// file, and expects its canaries to get past it.
func TestABrokenRuleIsNoticed(t *testing.T) {
	canaries := readCanaries(t)
	raw, err := os.ReadFile("../../.depguard.yaml")
	if err != nil {
		t.Fatal(err)
	}
	broken := regexp.MustCompile(`(?m)^  files: .*$`).ReplaceAllString(string(raw), `  files: ["**/nowhere/*.go"]`)
	if caught := depguardOver(t, canaries, broken); len(caught) != 0 {
		t.Errorf("rules that match no file caught %v", caught)
	}
}

func keys(m map[string]bool) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func readRules(t *testing.T) map[string]any {
	t.Helper()
	raw, err := os.ReadFile("../../.depguard.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]any{}
	if err := yaml.Unmarshal(raw, &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules) == 0 {
		t.Fatal(".depguard.yaml has no rules")
	}
	return rules
}

func readCanaries(t *testing.T) []canary {
	t.Helper()
	raw, err := os.ReadFile("canaries.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []canary
	for line := range strings.Lines(string(raw)) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) == 3 {
			all = append(all, canary{f[0], f[1], f[2]})
		} else if len(f) != 0 {
			t.Fatalf("canaries.txt: want three words in %q", line)
		}
	}
	return all
}

func runDepguard(t *testing.T, canaries []canary) map[string]map[string]bool {
	t.Helper()
	raw, err := os.ReadFile("../../.depguard.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return depguardOver(t, canaries, string(raw))
}

// depguardOver lays the canaries out as a module named kvd, with an empty
// package for whatever they import, and returns which lists caught what:
// "file import" → names of lists.
func depguardOver(t *testing.T, canaries []canary, rules string) map[string]map[string]bool {
	t.Helper()
	root := t.TempDir()
	write(t, root, ".depguard.yaml", rules)
	gomod := "module kvd\n\ngo 1.26\n"
	files := map[string]string{} // the canary file's name on disk → "file import"
	stubbed := map[string]bool{}
	for i, c := range canaries {
		if !stubbed[c.imports] {
			stubbed[c.imports] = true
			gomod += stub(t, root, c.imports)
		}
		// Each canary is its own package beside no other, in a folder that the
		// list's globs still match: the same folder under another root.
		dir := fmt.Sprintf("c%02d", i)
		name := path.Join(dir, c.file)
		files[name] = c.file + " " + c.imports
		write(t, root, name, fmt.Sprintf("package canary\n\nimport _ %q\n", c.imports))
		if strings.HasSuffix(c.file, "_test.go") {
			write(t, root, path.Join(path.Dir(name), "doc.go"), "package canary\n")
		}
	}
	write(t, root, "go.mod", gomod)

	bin := filepath.Join(t.TempDir(), "depguard")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/OpenPeeDeeP/depguard/v2/cmd/depguard").CombinedOutput(); err != nil {
		t.Fatalf("build depguard: %v\n%s", err, out)
	}
	cmd := exec.Command(bin, "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off")
	out, err := cmd.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 3) {
		t.Fatalf("depguard: %v\n%s", err, out) // 3 is "found something", 1 is "could not look"
	}
	return parse(t, root, string(out), files)
}

// parse reads "FILE:LINE:COL: import 'X' is not allowed from list 'L'…".
func parse(t *testing.T, root, out string, files map[string]string) map[string]map[string]bool {
	t.Helper()
	finding := regexp.MustCompile(`^(.+?):\d+:\d+: import '.+' is not allowed from list '(.+?)'(: .+)?$`)
	caught := map[string]map[string]bool{}
	for line := range strings.Lines(out) {
		m := finding.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			t.Fatalf("unexpected line from depguard: %q", line)
		}
		name, err := filepath.Rel(root, m[1])
		if err != nil || files[filepath.ToSlash(name)] == "" {
			t.Fatalf("depguard speaks of an unknown file: %q", line)
		}
		if m[3] == "" {
			t.Errorf("list %q forbids without a reason: %q", m[2], line)
		}
		key := files[filepath.ToSlash(name)]
		if caught[key] == nil {
			caught[key] = map[string]bool{}
		}
		caught[key][m[2]] = true
	}
	return caught
}

// stub writes an empty package for an import path and returns the lines that
// go.mod needs for it.
func stub(t *testing.T, root, importPath string) string {
	t.Helper()
	if rest, ok := strings.CutPrefix(importPath, "kvd/"); ok {
		write(t, root, path.Join(rest, "stub.go"), "package stub\n")
		return ""
	}
	write(t, root, path.Join("third", importPath, "stub.go"), "package stub\n")
	module := importPath
	if path.Base(module) == "v1" { // fine as a package, not as the name of a module
		module = path.Dir(module)
	}
	dir := path.Join("third", module)
	write(t, root, path.Join(dir, "go.mod"), "module "+module+"\n")
	version := "v0.0.0"
	if m := regexp.MustCompile(`/v([2-9])$`).FindStringSubmatch(module); m != nil {
		version = "v" + m[1] + ".0.0"
	}
	return fmt.Sprintf("require %s %s\nreplace %s => ./%s\n", module, version, module, dir)
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	full := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
