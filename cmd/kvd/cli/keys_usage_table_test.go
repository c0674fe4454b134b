package cli

import (
	"bytes"
	"strings"
	"testing"

	"kvd/pkg/ops/keyspace"
)

// A name in a table is --prefix of the next command, so that it is to be escaped once,
// as keys list has it.
func TestNamesOfGroupsCanBeTyped(t *testing.T) {
	t.Parallel()
	const name = "back\\slash/\x00/"
	part := keyspace.Part{Name: name, Largest: &keyspace.KeySize{Key: name + "\x01k"}}
	group := keyspace.WriteGroup{Name: name}
	var stored, written bytes.Buffer
	if err := keysUsageTable(keyspace.Breakdown{Live: true, By: keyspace.ByTree, Prefix: name, Groups: []keyspace.Part{part}}, 0)(&stored); err != nil {
		t.Fatal(err)
	}
	if err := writesTable(keyspace.Writes{By: keyspace.ByTree, Groups: []keyspace.WriteGroup{group}}, 0)(&written); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{stored.String(), written.String()} {
		var typed string
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "back") {
				typed, _, _ = strings.Cut(line, " ")
			}
		}
		if got, err := unescape("keys usage", "--prefix", typed); err != nil || got != name {
			t.Errorf("%q is %q (%v), want %q\n%s", typed, got, err, name, out)
		}
	}
	if want := `with prefix back\\slash/\x00/,`; !strings.Contains(stored.String(), want) {
		t.Errorf("no %q in\n%s", want, stored.String())
	}
	if want := `…/\x01k (`; !strings.Contains(stored.String(), want) {
		t.Errorf("no %q in\n%s", want, stored.String())
	}
}
