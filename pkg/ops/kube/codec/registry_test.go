package codec_test

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/kube/codec"
	"kvd/pkg/ops/kube/keys"
)

// openRegistry opens what a real API server of Kubernetes 1.37 has stored.
func openRegistry(t *testing.T) *dbfile.File {
	t.Helper()
	packed, err := os.Open("../../dbfile/testdata/real-registry.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "registry.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := dbfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestRealRegistry decodes every value that a real API server stored, also those of
// the past: each is an object that says the namespace and name that its key says.
func TestRealRegistry(t *testing.T) {
	f := openRegistry(t)
	live, err := f.LiveAt(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	c, layout := codec.New(), keys.Default()
	objects, all, kinds := 0, 0, map[string]int{}
	err = f.Revisions(context.Background(), 0, func(r *dbfile.Record) error {
		if r.Tombstone {
			return nil
		}
		all++
		k, isObject := layout.Parse(string(r.Key))
		o := c.Decode(k.GroupResource(), r.Value)
		switch {
		case !isObject:
			t.Errorf("%s is not understood", r.Key)
		case o.Tree == nil || o.Partial || o.Problem != "":
			t.Errorf("%s: %s %s", r.Key, o.What(), o.Problem)
		case k.Resource == "ranges" || k.Resource == "masterleases" || k.Resource == "peerserverleases":
			// What an API server keeps for itself has no name.
		case o.Name != k.Name || o.Namespace != k.Namespace:
			t.Errorf("%s: namespace %q, name %q", r.Key, o.Namespace, o.Name)
		}
		if live.Has(r.Index) {
			objects++
			kinds[o.APIVersion+" "+o.Kind]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d values, %d of them live objects of %d kinds", all, objects, len(kinds))
	if live.Live() != 573 || objects != 573 {
		t.Errorf("%d live values, of which %d are objects; there are 573", live.Live(), objects)
	}
	for kind, want := range map[string]int{
		"v1 Pod": 43, "v1 Event": 137, "v1 Node": 12, "coordination.k8s.io/v1 Lease": 19, "apiregistration.k8s.io/v1 APIService": 23,
		"apiextensions.k8s.io/v1beta1 CustomResourceDefinition": 1, "example.invalid/v1 Widget": 6, "v1 RangeAllocation": 1,
	} {
		if kinds[kind] != want {
			t.Errorf("%d of %s, want %d (%v)", kinds[kind], kind, want, kinds)
		}
	}
}
