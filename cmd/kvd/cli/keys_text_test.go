package cli

import (
	"fmt"
	"strings"
	"testing"

	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/codec"
)

// In a list of many the one that an API server cannot read has to be seen: kubectl names
// no key when a list fails for one object.
func TestListedValuesThatDoNotDecode(t *testing.T) {
	t.Parallel()
	d := keyspace.Describer{Codec: codec.New()}
	for value, want := range map[string]string{
		"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x40\x0a": "    # v1 Pod: cut short or damaged\n    k8s",
		`{"apiVersion":"x.io/v1","kind":"Widget","spec":{`: "    # x.io/v1 Widget: not valid JSON: unexpected EOF\n    {\"apiVersion\"",
		`{"apiVersion":"x.io/v1","kind":"Widget"}`:         "    apiVersion: x.io/v1\n",
		"17":                         "    17\n",
		"k8s:enc:aescbc:v1:key1:xxx": "    # encrypted at rest (aescbc, key1)\n    k8s:enc",
	} {
		var out strings.Builder
		it := &keyspace.Item{}
		it.Key, it.Value = []byte("/registry/pods/a/b"), []byte(value)
		if err := drawValue(&out, d.Decode(it).Value, "    "); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%q: %v\n%s\nwant\n%s", value, err, out.String(), want)
		}
	}
}

// Of hundreds of managers a few are named.
func TestEventOfManyManagers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "by m0", 6: "by m5", 458: "by 453 more, which -o json names"} {
		e := &keyspace.Event{What: "updated"}
		for i := range n {
			e.By = append(e.By, keyspace.Manager{Manager: fmt.Sprint("m", i)})
		}
		parts := new(eventText).parts(e)
		if got := parts[len(parts)-1]; got != want || len(parts) > 8 {
			t.Errorf("%d managers: %v", n, parts)
		}
	}
}
