package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"kvd/pkg/diagnose"
)

// Every command that a remedy of kvd diagnose names is one that kvd has, with flags that
// it has: read from the source, so that none is left out.
func TestRemediesParse(t *testing.T) {
	commands := remedyCommands(t)
	if len(commands) < 60 {
		t.Errorf("only %d commands were found", len(commands))
	}
	for _, line := range commands {
		step, _, _ := strings.Cut(line, "  # ")
		runs(t, "a remedy", step)
	}
}

var verb = regexp.MustCompile(`%[a-z]`)

// remedyCommands are the strings in the source of pkg/diagnose that begin with "kvd ",
// with a 1 where a value goes.
func remedyCommands(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "pkg", "diagnose", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text := joined(e)
			if !strings.HasPrefix(text, "kvd ") || strings.HasSuffix(text, "kvd ") {
				return true
			}
			out = append(out, verb.ReplaceAllString(text, "1"))
			return false
		})
	}
	return out
}

// joined is the text of a string or a sum of strings, with a 1 for what is none.
func joined(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.Ident); ok && strings.HasPrefix(f.Name, "under") {
			return " --prefix 1" // a flag with its value, see check_share.go
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return joined(e.X) + joined(e.Y)
		}
	}
	return "1"
}

// A remedy goes to the cluster that was diagnosed, typed as it stands.
func TestRemediesRepeatTheConnection(t *testing.T) {
	given := map[string]string{"endpoints": "127.0.0.1:41201,127.0.0.1:41202", "cacert": "/my pki/ca.crt", "user": "root:secret", "password": "secret",
		"insecure-skip-tls-verify": "true", "command-timeout": "1m", "interval": "0s"}
	const where = " --endpoints 127.0.0.1:41201,127.0.0.1:41202 --cacert '/my pki/ca.crt' --insecure-skip-tls-verify --user root"
	for command, want := range map[string]string{
		"kvd alarm recover":                      "kvd alarm recover" + where,
		"kvd keys usage --by lease":              "kvd keys usage --by lease" + where,
		"kvd wal stats DATA-DIR":                 "kvd wal stats DATA-DIR",              // has to do with no cluster
		"kvd keys list /d/db --min-size 1MiB":    "kvd keys list /d/db --min-size 1MiB", // of a file
		"kvd diagnose --disk DIR":                "kvd diagnose --disk DIR",
		"kvd diagnose --data-dir A --data-dir B": "kvd diagnose --data-dir A --data-dir B",
		"etcdctl downgrade cancel":               "etcdctl downgrade cancel",
		"":                                       "",
	} {
		if got := connected(testRoot(), command, given); got != want {
			t.Errorf("%q becomes\n %q, want\n %q", command, got, want)
		}
		if got := connected(testRoot(), command, nil); got != command {
			t.Errorf("without flags %q becomes %q", command, got)
		}
	}
	o := diagnoseOptions{kvd: testRoot()}
	r := diagnose.Report{Findings: []diagnose.Finding{{Next: []diagnose.Step{{Command: "kvd alarm recover", Purpose: "now"}, {Purpose: "wait"}}}}}
	fs := testRoot().Flags()
	o.client.addFlags(fs)
	if err := fs.Parse([]string{"--endpoints", "10.0.0.1:2379", "--password", "secret"}); err != nil {
		t.Fatal(err)
	}
	o.repeatConnection(r)
	if got, want := r.Findings[0].Next[0].Line(), "kvd alarm recover --endpoints 10.0.0.1:2379  # now"; got != want {
		t.Errorf("the step is %q, want %q", got, want)
	}
}
