package diff_test

import (
	"maps"
	"path/filepath"
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
	s := open(t, cfg.Path)
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
