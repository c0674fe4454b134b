package diff_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"

	"kvd/pkg/ops/diff"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
)

// wrote is a put of a history that is written out.
type wrote struct {
	key, value string
	lease      lease.LeaseID
}

// written makes a file of puts, one revision each.
func written(t *testing.T, puts ...wrote) keyspace.Source {
	t.Helper()
	cfg := backend.DefaultBackendConfig(zap.NewNop())
	cfg.Path, cfg.UnsafeNoFsync, cfg.MmapSize = filepath.Join(t.TempDir(), "db"), true, 1<<20
	be := backend.New(cfg)
	store := mvcc.NewStore(zap.NewNop(), be, &lease.FakeLessor{}, mvcc.StoreConfig{})
	for _, p := range puts {
		w := store.Write(traceutil.TODO())
		w.Put([]byte(p.key), []byte(p.value), p.lease)
		w.End()
	}
	store.Close()
	if err := be.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, cfg.Path, keyspace.FileOptions{})
	t.Cleanup(func() { s.Close() })
	return s
}

// TestTwoHistories: clusters that were restored from one snapshot write different
// things at the same revisions. Only the values tell, or the leases; whoever takes
// revisions for enough is told nothing.
func TestTwoHistories(t *testing.T) {
	t.Parallel()
	a := written(t, wrote{"same", "v", 0}, wrote{"value", "one", 0}, wrote{"lease", "v", 1}, wrote{"longer", "v", 0})
	b := written(t, wrote{"same", "v", 0}, wrote{"value", "two", 0}, wrote{"lease", "v", 2}, wrote{"longer", "vvv", 0})
	sides := [2]diff.Side{{Source: a, Rev: 5}, {Source: b, Rev: 5}}
	got, _ := told(t, sides[0], sides[1], diff.Options{Layout: keys.Default()})
	if want := map[string]string{"value": "changed value", "lease": "lease lease", "longer": "changed value"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, _ := told(t, sides[0], sides[1], diff.Options{Layout: keys.Default(), ByRevision: true}); len(got) != 0 {
		t.Errorf("by revision: %v", got)
	}
}

// Case C74: values that are no objects, or none that can be read, are named and end
// nothing; those of custom resources are compared by their fields, below any prefix.
func TestValuesThatDoNotDecode(t *testing.T) {
	t.Parallel()
	widget := func(size int) string {
		return fmt.Sprintf(`{"apiVersion":"x.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":%d}}`, size)
	}
	unknown := func(spec string) string { // a message of a kind that nobody knows: metadata, and then something
		object := "\x0a\x03\x0a\x01n" + "\x12" + string(rune(len(spec))) + spec
		return "k8s\x00\x0a\x0b\x0a\x04x/v1\x12\x03Odd\x12" + string(rune(len(object))) + object
	}
	values := map[string][2]string{
		"/registry/secrets/a/enc":           {"k8s:enc:aescbc:v1:key1:xxxx", "k8s:enc:aescbc:v1:key2:yyyy"},
		"/registry/pods/a/cut":              {"k8s\x00\x0a\x09\x0a\x02v1", "k8s\x00\x0a\x09\x0a\x02v"},
		"/registry/pods/a/odd":              {unknown("one"), unknown("two")},
		"/registry/x.io/widgets/a/w":        {widget(1), widget(2)},
		"/own/prefix/x.io/widgets/a/w":      {widget(1), widget(2)},
		"/registry/configmaps/a/plain":      {"17", "18"},
		"/registry/leases/a/object-to-none": {widget(1), ""},
		"compact_rev_key":                   {"17", "18"},
		"/registry/secrets/a/now-encrypted": {widget(1), "k8s:enc:aescbc:v1:key2:yyyy"},
		"/registry/secrets/a/was-encrypted": {"k8s:enc:aescbc:v1:key1:xxxx", widget(1)},
		"/registry/secrets/a/same-key":      {"k8s:enc:aescbc:v1:key1:xxxx", "k8s:enc:aescbc:v1:key1:yyyy"},
		"/registry/x.io/widgets/a/cut":      {widget(1), widget(1)[:60]},
		"/registry/x.io/widgets/a/order":    {widget(1), `{"kind":"Widget","apiVersion":"x.io/v1","spec":{"size":1},"metadata":{"name":"w"}}`},
	}
	var before, after []wrote
	for _, key := range slices.Sorted(maps.Keys(values)) {
		before, after = append(before, wrote{key, values[key][0], 0}), append(after, wrote{key, values[key][1], 0})
	}
	rev := int64(1 + len(values))
	got := map[string]string{}
	o := diff.Options{Layout: keys.Default().With("/own/prefix"), Fields: true}
	_, err := diff.Run(t.Context(), diff.Side{Source: written(t, before...), Rev: rev}, diff.Side{Source: written(t, after...), Rev: rev}, o, func(e *diff.Entry) error {
		got[string(e.Key)] = fmt.Sprintf("%s %v %s", e.Kind, e.Fields, e.Opaque+e.Rewritten)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"/registry/secrets/a/enc":           "A: encrypted at rest (aescbc, key1); B: encrypted at rest (aescbc, key2)",
		"/registry/secrets/a/now-encrypted": "A: x.io/v1 Widget; B: encrypted at rest (aescbc, key2)",
		"/registry/secrets/a/was-encrypted": "A: encrypted at rest (aescbc, key1); B: x.io/v1 Widget",
		"/registry/secrets/a/same-key":      "changed [] encrypted at rest (aescbc, key1)",
		"/registry/x.io/widgets/a/cut":      "A: x.io/v1 Widget; B: x.io/v1 Widget, not valid JSON: unexpected EOF",
		"/registry/x.io/widgets/a/order":    "changed [] in other bytes",
		"/registry/pods/a/cut":              "cut short or damaged",
		"/registry/pods/a/odd":              "only its metadata is told", "/registry/x.io/widgets/a/w": "spec.size 1 2", "/own/prefix/x.io/widgets/a/w": "spec.size 1 2",
		"/registry/configmaps/a/plain": "no object", "/registry/leases/a/object-to-none": "no object", "compact_rev_key": "changed [] ",
	} {
		if !strings.Contains(got[key], want) {
			t.Errorf("%s: %q, want %q in it", key, got[key], want)
		}
	}
	if len(got) != len(values) {
		t.Errorf("%d of %d keys differ", len(got), len(values))
	}
}
