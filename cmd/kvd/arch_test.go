package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// repoRoot is the folder of go.mod, as seen from this package's tests.
const repoRoot = "../.."

// The import rules are written once, in .depguard.yaml. This test reads them
// with a few lines of its own and holds them against what `go list -deps`
// reports, so that `make test` finds a wrong arrow without the linter, and a
// slip in one of the two readers shows as a difference.

// importRule is one list of .depguard.yaml.
type importRule struct {
	Mode  string            `yaml:"listMode"`
	Files []string          `yaml:"files"`
	Allow []string          `yaml:"allow"`
	Deny  map[string]string `yaml:"deny"`
}

// listed is what `go list` says of a package.
type listed struct {
	ImportPath   string
	Dir          string
	Standard     bool
	GoFiles      []string
	Imports      []string
	TestGoFiles  []string
	TestImports  []string
	XTestGoFiles []string
	XTestImports []string
	Deps         []string
}

func TestImportRules(t *testing.T) {
	rules := readImportRules(t)
	pkgs := goList(t)
	edges := 0
	for _, p := range pkgs {
		rel, mine := strings.CutPrefix(p.ImportPath, "kvd/")
		if !mine {
			continue
		}
		check := func(file string, imports []string) {
			for _, imp := range imports {
				edges++
				for _, broken := range violations(rules, path.Join(rel, file), imp, pkgs) {
					t.Errorf("%s imports %s, against rule %s", p.ImportPath, imp, broken)
				}
			}
		}
		check("x.go", p.Imports)
		check("x_test.go", append(slices.Clone(p.TestImports), p.XTestImports...))
	}
	if edges < 50 {
		t.Errorf("only %d imports were looked at: go list does not see the module", edges)
	}
}

func TestImportRuleCanaries(t *testing.T) {
	rules, pkgs := readImportRules(t), goList(t)
	proved := map[string]bool{}
	raw, err := os.ReadFile(filepath.Join(repoRoot, "scripts/lint/canaries.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		broken := violations(rules, f[1], f[2], pkgs)
		caught := slices.ContainsFunc(broken, func(b string) bool { return strings.HasPrefix(b, f[0]+":") })
		switch {
		case f[0] == "-" && len(broken) > 0:
			t.Errorf("%s may import %s, but: %v", f[1], f[2], broken)
		case f[0] != "-" && !caught:
			t.Errorf("%s importing %s is not caught by %q (caught by %v)", f[1], f[2], f[0], broken)
		}
		proved[f[0]] = true
	}
	for name := range rules {
		if !proved[name] {
			t.Errorf("rule %q has no canary", name)
		}
	}
}

// indirect are rules about everything that a package drags in, which a list of
// its own imports cannot show.
func indirect() map[string][]string {
	return map[string][]string{
		"kvd/pkg/server":       {"k8s.io/api", "k8s.io/apimachinery", "kvd/cmd", "kvd/pkg/diagnose", "kvd/pkg/loadgen"},
		"kvd/pkg/server/local": {"go.etcd.io/etcd/server/v3", "k8s.io/api", "k8s.io/apimachinery"},
		"kvd/pkg/ops":          {"go.etcd.io/etcd/server/v3/embed", "kvd/cmd", "kvd/pkg/server"},
		"kvd/pkg/ops/cluster":  {"go.etcd.io/etcd/server/v3"},
		"kvd/cmd/kvd/cli/render": {
			"go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/client/v3", "github.com/spf13/cobra"},
	}
}

func TestIndirectImports(t *testing.T) {
	pkgs := goList(t)
	for name, forbidden := range indirect() {
		p, ok := pkgs[name]
		if !ok {
			continue // not built yet; the rule waits for it
		}
		for _, hit := range drags(p.Deps, forbidden) {
			t.Errorf("%s drags in %s", name, hit)
		}
	}
	if hits := drags([]string{"fmt", "k8s.io/api/core/v1", "k8s.io/apis"}, []string{"k8s.io/api"}); !slices.Equal(hits, []string{"k8s.io/api/core/v1"}) {
		t.Errorf("canary: got %v", hits)
	}
}

func drags(deps, forbidden []string) []string {
	var hits []string
	for _, d := range deps {
		for _, f := range forbidden {
			if d == f || strings.HasPrefix(d, f+"/") {
				hits = append(hits, d)
			}
		}
	}
	return hits
}

// violations returns "rule: reason" for each rule that forbids file to import imp.
func violations(rules map[string]importRule, file, imp string, pkgs map[string]listed) []string {
	var broken []string
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		r := rules[name]
		if !r.concerns(file) {
			continue
		}
		allowed, std := -1, pkgs[imp].Standard
		for _, a := range r.Allow {
			if a == "$gostd" && std {
				allowed = len(imp)
			} else if matches(a, imp) {
				allowed = max(allowed, len(a))
			}
		}
		denied, reason := -1, "not among what this rule allows"
		for d, why := range r.Deny {
			if matches(d, imp) && len(d) > denied {
				denied, reason = len(d), why
			}
		}
		if (r.Mode == "strict" && allowed < 0) || (denied >= 0 && denied >= allowed) {
			broken = append(broken, name+": "+reason)
		}
	}
	return broken
}

// matches is depguard's prefix match; a final $ makes it exact.
func matches(pattern, imp string) bool {
	if exact, ok := strings.CutSuffix(pattern, "$"); ok {
		return exact == imp
	}
	return strings.HasPrefix(imp, pattern)
}

func (r importRule) concerns(file string) bool {
	in := false
	for _, pattern := range r.Files {
		glob, negated := strings.CutPrefix(pattern, "!")
		if !globMatch(glob, file) {
			continue
		}
		if negated {
			return false
		}
		in = true
	}
	return in
}

func globMatch(glob, file string) bool {
	if glob == "$test" {
		return strings.HasSuffix(file, "_test.go")
	}
	re := regexp.QuoteMeta(glob)
	for _, r := range [][2]string{{`\*\*/`, `(.*/)?`}, {`\*\*`, `.*`}, {`\*`, `[^/]*`}, {`\{`, `(`}, {`\}`, `)`}, {`,`, `|`}} {
		re = strings.ReplaceAll(re, r[0], r[1])
	}
	return regexp.MustCompile("^" + re + "$").MatchString(file)
}

func readImportRules(t *testing.T) map[string]importRule {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repoRoot, ".depguard.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]importRule{}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&rules); err != nil {
		t.Fatal(err)
	}
	for name, r := range rules {
		if r.Mode != "lax" && r.Mode != "strict" {
			t.Errorf("rule %q: mode %q is none this test knows", name, r.Mode)
		}
	}
	return rules
}

// goList returns every package of the module and what they depend on, by path.
func goList(t *testing.T) map[string]listed {
	t.Helper()
	fields := "ImportPath,Dir,Standard,GoFiles,Imports,TestGoFiles,TestImports,XTestGoFiles,XTestImports,Deps"
	cmd := exec.Command("go", "list", "-deps", "-json="+fields, "./...")
	cmd.Dir = repoRoot
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	pkgs := map[string]listed{}
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(fmt.Errorf("go list: %w", err))
		}
		pkgs[p.ImportPath] = p
	}
}
