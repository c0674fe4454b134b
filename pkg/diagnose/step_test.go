package diagnose_test

import (
	"regexp"
	"strings"
	"testing"

	"kvd/pkg/diagnose"
)

// glued is a command followed by words, or words by a command: neither can be typed as
// it stands.
var glued = regexp.MustCompile(`\bkvd [a-z]+[^#]*(: |, (if|where|with|then|and)\b)|: (kvd|etcdctl) `)

// Each remedy is a command with its purpose apart, or words without a command.
func TestRemediesAreCommands(t *testing.T) {
	for _, f := range fixtures() {
		w := healthy()
		f.change(w)
		for _, x := range diagnose.Diagnose(w.input(t)).Findings {
			if len(x.Next) != len(x.Remedy) {
				t.Errorf("%s: %d steps of %d", x.ID, len(x.Next), len(x.Remedy))
			}
			for i, s := range x.Next {
				if s.Line() != x.Remedy[i] {
					t.Errorf("%s: %q is written %q", x.ID, x.Remedy[i], s.Line())
				}
				if glued.MatchString(s.Command) || s.Command == "" && strings.Contains(s.Purpose, ": kvd ") {
					t.Errorf("%s: %q is no command, and has one in it", x.ID, x.Remedy[i])
				}
			}
		}
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"/registry/pods/": "/registry/pods/", "a b": "'a b'", "": "''", "it's; rm": `'it'\''s; rm'`} {
		if got := diagnose.ShellWord(in); got != want {
			t.Errorf("ShellWord(%q) = %q, want %q", in, got, want)
		}
	}
}
