package cli

import (
	"bufio"
	"strings"
	"testing"

	"kvd/pkg/ops/wal"
)

// What a request of auth names is told safely, its password never.
func TestWALTextOfAuth(t *testing.T) {
	for want, a := range map[string]wal.Auth{
		" ann role ops":                      {User: "ann", Role: "ops"},
		` \x1b[2Jann, password redacted`:     {User: "\x1b[2Jann", HasSecret: true},
		" role r readwrite /registry/pods/*": {Role: "r", Permission: "readwrite", Key: "/registry/pods/", End: "/registry/pods0"},
		" role r read a and all behind":      {Role: "r", Permission: "read", Key: "a", End: "\x00"},
		` role r write a\x01 up to c\xff`:    {Role: "r", Permission: "write", Key: "a\x01", End: "c\xff"},
	} {
		var out strings.Builder
		w := bufio.NewWriter(&out)
		text := walText{w: w, file: "f"}
		if err := text.line(&wal.Line{Position: wal.Position{File: "f"}, Type: "auth_x", Body: &a}); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.HasSuffix(got, "  auth x"+want+"\n") {
			t.Errorf("%+v is told as %q, want %q at its end", a, got, want)
		}
	}
}
