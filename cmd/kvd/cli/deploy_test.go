package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mattn/go-shellwords"
	"go.yaml.in/yaml/v3"

	"kvd/cmd/kvd/cli/config"
)

// TestDeployedCommandLines gives the command lines in docs/deploy to the commands
// that they name, so that no flag in them can go stale.
func TestDeployedCommandLines(t *testing.T) {
	const dir = "../../../docs/deploy"
	seen := 0
	check := func(file string, words []string) {
		t.Helper()
		app, _ := testApp(strings.NewReader(""), false, nil)
		ran := false
		cmds := map[string]func() error{
			"defrag": func() error {
				cmd := newDefragCmd(app, func(_ context.Context, _ *App, o defragOptions) error {
					ran = o.timer.on() || o.plan.Yes
					return nil
				})
				app.Global.addFlags(cmd.Flags())
				cmd.SetArgs(words[2:])
				return cmd.Execute()
			},
			"compact": func() error {
				cmd := newCompactCmd(app, func(_ context.Context, _ *App, o compactOptions) error { ran = o.timer.on(); return nil })
				app.Global.addFlags(cmd.Flags())
				cmd.SetArgs(words[2:])
				return cmd.Execute()
			},
		}
		run, ok := cmds[words[1]]
		if !ok || filepath.Base(words[0]) != "kvd" {
			t.Fatalf("%s: %q is no command of kvd that can be left alone", file, words)
		}
		if err := run(); err != nil || !ran {
			t.Errorf("%s: %q: ran without being asked %v, %v", file, words, ran, err)
		}
		seen++
	}
	units, _ := filepath.Glob(filepath.Join(dir, "*.service"))
	for _, file := range units {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			if line, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); ok {
				words, err := shellwords.Parse(line)
				if err != nil {
					t.Fatal(err)
				}
				check(file, words)
			}
			if env, ok := strings.CutPrefix(strings.TrimSpace(line), "Environment=KVD_"); ok {
				name, _, _ := strings.Cut(env, "=")
				if flag := strings.ToLower(strings.ReplaceAll(name, "_", "-")); config.EnvName(flag) != "KVD_"+name {
					t.Errorf("%s: KVD_%s is read by nobody", file, name)
				}
			}
		}
	}
	for _, name := range []string{"kvd-static-pod.yaml", "kvd-cronjob.yaml"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := yaml.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		for _, words := range commandsIn(doc) {
			check(name, words)
		}
	}
	if seen != 4 {
		t.Errorf("%d command lines were looked at", seen)
	}
}

// commandsIn finds the lists under "command" in a YAML document.
func commandsIn(doc any) [][]string {
	var out [][]string
	switch d := doc.(type) {
	case map[string]any:
		for key, v := range d {
			list, ok := v.([]any)
			if key != "command" || !ok {
				out = append(out, commandsIn(v)...)
				continue
			}
			var words []string
			for _, w := range list {
				s, _ := w.(string)
				words = append(words, s)
			}
			out = append(out, words)
		}
	case []any:
		for _, v := range d {
			out = append(out, commandsIn(v)...)
		}
	}
	return out
}
