package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whoever asked for JSON gets the error as JSON, also where the command line could
// not be read as far as that.
func TestErrorsOfACommandLineInItsFormat(t *testing.T) {
	for _, tc := range []struct {
		args, env string
		json      bool
	}{
		{"status --nope", "", false},
		{"status --nope -o json", "", true},
		{"status --nope -ojson", "", true},
		{"status -o json --nope", "", true},
		{"status --nope --output=json", "", true},
		{"status --nope -o=json", "", true},
		{"status --nope", "json", true},
		{"status --nope -o table", "json", false},
		{"status --nope -o xml", "json", false},
		{"status --nope -o", "", false},
		{"status --nope -- -o json", "", false},
		{"status one two", "json", true},
		{"no-such-command", "json", true},
		{"serve --nope", "json", false},
	} {
		code, _, stderr := runApp(t, map[string]string{"KVD_OUTPUT": tc.env}, strings.Fields(tc.args)...)
		var body struct{ Error errorBody }
		if err := json.Unmarshal([]byte(stderr), &body); code != 2 || (err == nil) != tc.json || tc.json && body.Error.ExitCode != 2 {
			t.Errorf("%s, KVD_OUTPUT=%s: exit %d, %q", tc.args, tc.env, code, stderr)
		}
	}
}
