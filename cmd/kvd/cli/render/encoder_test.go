package render

import (
	"bytes"
	"encoding/json"
	"testing"
)

// What a terminal might act upon is escaped, and parses to what it was.
func TestEncoder(t *testing.T) {
	for in, want := range map[string]string{
		"plain <ä>, 漢":             `"plain <ä>, 漢"`,
		"\x7fdel":                  `"\u007fdel"`,
		"csi \u009b31m":            `"csi \u009b31m"`,
		"\u202ereversed\u202c end": `"\u202ereversed\u202c end"`,
		"\x1b[2J":                  `"\u001b[2J"`,
		"tag \U000e0041":           `"tag \udb40\udc41"`,
	} {
		var b bytes.Buffer
		if err := NewEncoder(&b).Encode(in); err != nil {
			t.Fatal(err)
		}
		if b.String() != want+"\n" {
			t.Errorf("%q is %s, want %s", in, b.String(), want)
		}
		var back string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil || back != in {
			t.Errorf("%q came back as %q, %v", in, back, err)
		}
	}
}
