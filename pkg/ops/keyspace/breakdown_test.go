package keyspace_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	etcdlease "go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
)

// counted is what a test counts on its own: by group keys, bytes of live, older and
// deleting records, and the records of the latter two.
type counted struct{ keys, live, history, deleted, revisions, tombstones int64 }

// count reads a file with bbolt itself.
func count(t fataler, path string, group func(key string) string) map[string]counted {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer db.Close() //nolint:errcheck // only read
	type record struct {
		size int64
		tomb bool
	}
	last, out := map[string]record{}, map[string]counted{}
	older := func(key string, r record) {
		c := out[group(key)]
		if r.tomb {
			c.tombstones, c.deleted = c.tombstones+1, c.deleted+r.size
		} else {
			c.revisions, c.history = c.revisions+1, c.history+r.size
		}
		out[group(key)] = c
	}
	err = db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(k, v []byte) error {
			var kv mvccpb.KeyValue
			if err := proto.Unmarshal(v, &kv); err != nil {
				return err
			}
			key := string(kv.Key)
			if r, ok := last[key]; ok {
				older(key, r)
			}
			last[key] = record{int64(len(k) + len(v)), len(k) == 18}
			return nil
		})
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	for key, r := range last {
		if r.tomb {
			older(key, r)
			continue
		}
		c := out[group(key)]
		c.keys, c.live = c.keys+1, c.live+r.size
		out[group(key)] = c
	}
	return out
}

func countedOf(a keyspace.Amounts) counted {
	c := counted{keys: a.Keys, live: a.Live, revisions: a.Revisions}
	if a.History != nil {
		c.history, c.deleted, c.tombstones = *a.History, *a.Deleted, *a.Tombstones
	}
	return c
}

func breakdown(t fataler, path string, fo keyspace.FileOptions, change func(*keyspace.BreakdownOptions)) keyspace.Breakdown {
	t.Helper()
	s, err := keyspace.OpenFile(context.Background(), path, fo)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer s.Close() //nolint:errcheck // only read
	o := keyspace.DefaultBreakdownOptions()
	change(&o)
	b, err := keyspace.BreakdownFile(context.Background(), s, o)
	if err != nil {
		t.Fatalf("breakdown: %v", err)
	}
	if b.File != nil && b.File.Sum() != b.File.Size {
		t.Fatalf("%+v adds up to %d", *b.File, b.File.Sum())
	}
	return b
}

// TestABreakdownCountsWhatIsThere compares random histories with a count by bbolt,
// also where there are more keys than the memory holds, and the live keys with
// etcd's own store.
func TestABreakdownCountsWhatIsThere(t *testing.T) {
	t.Parallel()
	var f features
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		h := writeHistory(t, filepath.Join(dir, fmt.Sprint("db", f.runs)), &f)
		defer os.Remove(h.path) //nolint:errcheck // the folder goes as well
		fo := keyspace.FileOptions{Memory: rapid.SampledFrom([]int64{0, 1000}).Draw(t, "memory")}
		all := func(string) string { return "" }
		b := breakdown(t, h.path, fo, func(o *keyspace.BreakdownOptions) { o.Depth = rapid.IntRange(1, 4).Draw(t, "depth") })
		if want := count(t, h.path, all)[""]; countedOf(b.Total) != want {
			t.Fatalf("%+v, want %+v", countedOf(b.Total), want)
		}
		var live int64
		for _, s := range h.states[h.head] {
			live += int64(17 + proto.Size(&mvccpb.KeyValue{Key: []byte(s.key), Value: []byte(s.value), CreateRevision: s.create, ModRevision: s.mod, Version: s.version, Lease: s.lease}))
		}
		if b.Total.Keys != int64(len(h.states[h.head])) || b.Total.Live != live {
			t.Fatalf("%d keys, %d bytes; etcd has %d, %d", b.Total.Keys, b.Total.Live, len(h.states[h.head]), live)
		}
		for _, by := range []keyspace.By{keyspace.ByPrefix, keyspace.ByResource, keyspace.ByNamespace, keyspace.ByLease, keyspace.ByKind} {
			b := breakdown(t, h.path, fo, func(o *keyspace.BreakdownOptions) { o.By = by })
			var sum counted
			for _, p := range b.Groups {
				c := countedOf(p.Amounts)
				sum = counted{sum.keys + c.keys, sum.live + c.live, sum.history + c.history, sum.deleted + c.deleted, sum.revisions + c.revisions, sum.tombstones + c.tombstones}
			}
			if sum != countedOf(b.Total) || sum != count(t, h.path, all)[""] {
				t.Fatalf("by %s: %+v in groups, %+v in all", by, sum, countedOf(b.Total))
			}
		}
		under := breakdown(t, h.path, fo, func(o *keyspace.BreakdownOptions) { o.Prefix = "/registry/pods/" })
		if want := count(t, h.path, func(k string) string { return fmt.Sprint(strings.HasPrefix(k, "/registry/pods/")) })["true"]; countedOf(under.Total) != want {
			t.Fatalf("with a prefix %+v, want %+v", countedOf(under.Total), want)
		}
	})
	f.enough(t)
}

// realRegistry unpacks the snapshot of what a real API server wrote.
func realRegistry(t *testing.T) string {
	t.Helper()
	packed, err := os.Open("../dbfile/testdata/real-registry.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close() //nolint:errcheck // only read
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "registry.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestARealRegistryByResource compares the live keys and bytes of each resource with
// what etcd's own store has of it.
func TestARealRegistryByResource(t *testing.T) {
	t.Parallel()
	path := realRegistry(t)
	b := breakdown(t, path, keyspace.FileOptions{}, func(o *keyspace.BreakdownOptions) { o.By = keyspace.ByResource })
	if b.Revision != 1189 || b.Oldest != 1 || b.Total.Keys != 573 || len(b.File.Buckets) == 0 {
		t.Errorf("%+v", b)
	}
	kinds := breakdown(t, path, keyspace.FileOptions{}, func(o *keyspace.BreakdownOptions) { o.By = keyspace.ByKind })
	for _, want := range []string{"v1 Pod", "v1 Event", "rbac.authorization.k8s.io/v1 ClusterRole", "example.invalid/v1 Widget"} {
		part(t, kinds.Groups, want)
	}
	kv, done := store(t, path)
	defer done()
	r, err := kv.Range(t.Context(), []byte{0}, []byte{}, mvcc.RangeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]counted{}
	for i := range r.KVs {
		k, ok := keys.Default().Parse(string(r.KVs[i].Key))
		if !ok {
			t.Fatalf("%q is no key of Kubernetes", r.KVs[i].Key)
		}
		c := want[k.GroupResource()]
		c.keys, c.live = c.keys+1, c.live+int64(17+proto.Size(r.KVs[i]))
		want[k.GroupResource()] = c
	}
	for name, w := range want {
		p := part(t, b.Groups, name)
		if p.Keys != w.keys || p.Live != w.live {
			t.Errorf("%s: %d keys, %d bytes; etcd has %d, %d", name, p.Keys, p.Live, w.keys, w.live)
		}
	}
	if len(b.Groups) < len(want) {
		t.Errorf("%d groups, etcd has keys of %d", len(b.Groups), len(want))
	}
}

// group finds a group by its name.
func part(t fataler, parts []keyspace.Part, name string) keyspace.Part {
	t.Helper()
	var names []string
	for _, p := range parts {
		if string(p.Name) == name {
			return p
		}
		names = append(names, string(p.Name))
	}
	t.Fatalf("no group %q among %q", name, names)
	return keyspace.Part{}
}

// TestWhatIsChurning has few keys that are written again and again, one of them in
// a tree, a lease that holds many, deletions, and what the file tells of each.
func TestWhatIsChurning(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	kv, done := store(t, path)
	put := func(key, value string, id int64) { kv.Put([]byte(key), []byte(value), etcdlease.LeaseID(id)) }
	for i := range 12 {
		put(fmt.Sprintf("/registry/leases/kube-node-lease/n%02d", i), "v", 0)
	}
	for i := range 4000 {
		put(fmt.Sprintf("/registry/leases/kube-node-lease/n%02d", []int{3, 3, 7, 9}[i%4]), "v", 0)
	}
	for i := range 900 {
		put(fmt.Sprintf("/registry/events/default/e%03d", i), "k8s\x00\n\x0b\n\x02v1\x12\x05Event", 0x7587)
	}
	put("/registry/secrets/kube-system/s", "k8s:enc:aescbc:v1:key1:xxxx", 0)
	put("/registry/secrets/kube-system/gone", strings.Repeat("x", 9000), 0x99)
	kv.DeleteRange([]byte("/registry/secrets/kube-system/gone"), nil)
	put("odd\xff", "1", 0)
	kv.Commit()
	done()

	tree := breakdown(t, path, keyspace.FileOptions{}, func(o *keyspace.BreakdownOptions) { o.Depth = 3 })
	leases := part(t, part(t, tree.Groups, "/registry/").Groups, "/registry/leases/")
	if m := leases.MostRevised; leases.Keys != 12 || leases.Revisions != 4000 || m == nil || m.Key != "/registry/leases/kube-node-lease/n03" || m.Revisions != 2001 {
		t.Errorf("%+v, most revised %+v", leases.Amounts, m)
	}
	part(t, leases.Groups, "/registry/leases/kube-node-lease/")
	by := func(by keyspace.By) []keyspace.Part {
		return breakdown(t, path, keyspace.FileOptions{}, func(o *keyspace.BreakdownOptions) { o.By = by }).Groups
	}
	if p := part(t, by(keyspace.ByLease), "7587"); p.Keys != 900 || p.Revisions != 0 {
		t.Errorf("on the lease: %+v", p.Amounts)
	}
	if p := part(t, by(keyspace.ByLease), "99"); p.Keys != 0 || p.Revisions != 1 || *p.Tombstones != 1 {
		t.Errorf("on the other: %+v", p.Amounts)
	}
	kinds := by(keyspace.ByKind)
	if p := part(t, kinds, "v1 Event"); p.Keys != 900 {
		t.Errorf("events: %+v", p.Amounts)
	}
	part(t, kinds, "(encrypted at rest: aescbc, key1)")
	if p := part(t, by(keyspace.ByNamespace), "kube-system"); p.Keys != 1 || p.Largest.Key != "/registry/secrets/kube-system/s" || *p.Tombstones != 1 {
		t.Errorf("in the namespace: %+v", p)
	}
	flat := breakdown(t, path, keyspace.FileOptions{}, func(o *keyspace.BreakdownOptions) { o.By = keyspace.ByPrefix })
	raw, err := json.Marshal(flat)
	if err != nil || !bytes.Contains(raw, []byte(`"largest_key":{"key_base64":"b2Rk/w=="`)) {
		t.Errorf("a key that is not UTF-8: %v in %.2000s", err, raw)
	}
}

// TestGrowth compares two reports that went through JSON.
func TestGrowth(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	kv, done := store(t, path)
	for i := range 50 {
		kv.Put(fmt.Appendf(nil, "/registry/pods/a/p%d", i), make([]byte, 100), 0)
		kv.Put(fmt.Appendf(nil, "old\xff/%d", i), make([]byte, 100), 0)
	}
	kv.Commit()
	done()
	tree := func(*keyspace.BreakdownOptions) {}
	raw, err := json.Marshal(breakdown(t, path, keyspace.FileOptions{}, tree))
	if err != nil {
		t.Fatal(err)
	}
	before, err := keyspace.ReadBreakdown("before.json", raw)
	if err != nil {
		t.Fatal(err)
	}
	kv, done = store(t, path)
	for i := range 80 {
		kv.Put(fmt.Appendf(nil, "/registry/pods/a/p%d", i), make([]byte, 100), 0)
		kv.Put(fmt.Appendf(nil, "/registry/events/a/p%d", i), make([]byte, 100), 0)
	}
	kv.DeleteRange([]byte("old"), []byte("ole"))
	ch, err := kv.Compact(traceutil.TODO(), kv.Rev())
	if err != nil {
		t.Fatal(err)
	}
	<-ch
	kv.Commit()
	done()
	now := breakdown(t, path, keyspace.FileOptions{}, tree)
	if err := now.CompareWith(before); err != nil {
		t.Fatal(err)
	}
	if g := now.Since.Total; g.Keys != 80+30-50 || now.Since.Revision != before.Revision {
		t.Errorf("in all %+v since %+v", g, now.Since)
	}
	registry := part(t, now.Groups, "/registry/")
	if g := part(t, registry.Groups, "/registry/pods/").Growth; g.Keys != 30 || g.New || g.Live <= 0 {
		t.Errorf("pods: %+v", g)
	}
	if g := part(t, registry.Groups, "/registry/events/").Growth; g.Keys != 80 || !g.New {
		t.Errorf("events: %+v", g)
	}
	if g := part(t, now.Groups, "old\xff/").Growth; g.Keys != -50 || g.New {
		t.Errorf("what was deleted: %+v", g)
	}
	other := breakdown(t, path, keyspace.FileOptions{}, func(o *keyspace.BreakdownOptions) { o.By = keyspace.ByResource })
	if err := other.CompareWith(before); fault.CauseOf(err) != "other_groups" || fault.KindOf(err) != fault.Usage {
		t.Errorf("other groups: %v", err)
	}
	if _, err := keyspace.ReadBreakdown("x", []byte(`{"members":[]}`)); fault.CauseOf(err) != "not_a_report" {
		t.Errorf("no report: %v", err)
	}
}

// TestAFileThatDoesNotAddUp has a record that overlaps another one: each fits into
// its page, and together they are more than the page.
func TestAFileThatDoesNotAddUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	kv, done := store(t, path)
	for i := range 300 {
		kv.Put(fmt.Appendf(nil, "/k/%03d", i), make([]byte, 20), 0)
	}
	kv.Commit()
	done()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The first leaf page with a record of the bucket "key": the length of its
	// first value, in the table of elements, is one more.
	le := binary.LittleEndian
	for at := 2 * 4096; at < len(b); at += 4096 {
		if le.Uint16(b[at+8:]) == 2 && le.Uint16(b[at+10:]) > 20 && le.Uint32(b[at+16+8:]) == 17 {
			le.PutUint32(b[at+16+12:], le.Uint32(b[at+16+12:])-1)
			break
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := keyspace.OpenFile(t.Context(), path, keyspace.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // only read
	if b, err := keyspace.BreakdownFile(t.Context(), s, keyspace.DefaultBreakdownOptions()); fault.KindOf(err) != fault.Damage {
		t.Errorf("%v, %+v", err, b.File)
	}
}
