package diff_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"kvd/pkg/ops/diff"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
)

// traits are what histories must have often enough for the property to mean
// something.
type traits struct{ tombstones, txns, recreations, leases, compactions, transients bool }

// state is a key as etcd's own store reads it.
type state struct {
	create, mod, version, lease int64
	value                       string
}

// past is a history that was written into etcd's own store, and what was seen of it.
type past struct {
	dir    string
	be     backend.Backend
	store  mvcc.KV
	traits traits

	oldest   int64
	reads    map[int64]map[string]state // by revision: full reads, made when it was the latest
	written  map[string][]int64         // by key: the revisions of its puts
	lived    map[string]bool            // keys that were deleted before
	unhealed map[int64]bool             // revisions that must not be compacted to (etcd issue 22376)
}

func newPast(t *rapid.T, dir string) *past {
	cfg := backend.DefaultBackendConfig(zap.NewNop())
	cfg.Path, cfg.UnsafeNoFsync, cfg.MmapSize = filepath.Join(dir, "db"), true, 1<<20
	p := &past{dir: dir, be: backend.New(cfg), oldest: 1, reads: map[int64]map[string]state{1: {}}, written: map[string][]int64{},
		lived: map[string]bool{}, unhealed: map[int64]bool{}}
	p.store = mvcc.NewStore(zap.NewNop(), p.be, &lease.FakeLessor{}, mvcc.StoreConfig{})
	for range rapid.IntRange(4, 30).Draw(t, "changes") {
		p.change(t)
	}
	return p
}

func (p *past) head() int64 { return p.store.Rev() }

func (p *past) close() {
	p.store.Close()
	_ = p.be.Close()
}

// change makes one revision: a put, a deletion, a transaction of several, or
// compacts.
func (p *past) change(t *rapid.T) {
	if rapid.IntRange(0, 11).Draw(t, "compact") == 0 && p.head() > p.oldest {
		rev := rapid.Int64Range(p.oldest+1, p.head()).Draw(t, "to")
		if !p.unhealed[rev] {
			done, err := p.store.Compact(traceutil.TODO(), rev)
			if err != nil {
				t.Fatal(err)
			}
			<-done
			p.oldest, p.traits.compactions = rev, true
			return
		}
	}
	n := 1
	if rapid.IntRange(0, 4).Draw(t, "several") == 0 {
		n, p.traits.txns = rapid.IntRange(2, 5).Draw(t, "operations"), true
	}
	ops := rapid.SliceOfN(rapid.Custom(drawOp), n, n).Draw(t, "operations") // all at once: a draw may panic, and the store is locked from here on
	w := p.store.Write(traceutil.TODO())
	rev, put, deleted := p.head()+1, map[string]bool{}, map[string]bool{}
	for _, o := range ops {
		switch {
		case put[o.key]: // as etcd has it: put once in a transaction
		case o.gone:
			if gone, _ := w.DeleteRange([]byte(o.key), nil); gone > 0 {
				p.traits.tombstones = true
				p.lived[o.key], deleted[o.key] = true, true
			}
		default:
			w.Put([]byte(o.key), []byte(o.value), o.lease)
			put[o.key] = true
			p.traits.leases = p.traits.leases || o.lease != lease.NoLease
			p.traits.recreations = p.traits.recreations || p.lived[o.key]
			p.unhealed[rev] = p.unhealed[rev] || deleted[o.key]
			p.written[o.key] = append(p.written[o.key], rev)
		}
	}
	w.End()
	if p.head() == rev {
		p.reads[rev] = p.read(t)
	}
}

// op is one put or deletion.
type op struct {
	key, value string
	lease      lease.LeaseID
	gone       bool
}

func drawOp(t *rapid.T) op {
	o := op{key: rapid.SampledFrom([]string{"a", "a/b", "/registry/pods/n/p", "/registry/pods/n/q", "k", "k\x00", "k\xff", "z"}).Draw(t, "key"),
		value: rapid.SampledFrom([]string{"", "v", "w", "vv"}).Draw(t, "value"), gone: rapid.IntRange(0, 2).Draw(t, "delete") == 0}
	if rapid.IntRange(0, 3).Draw(t, "leased") == 0 {
		o.lease = lease.LeaseID(rapid.IntRange(1, 2).Draw(t, "lease"))
	}
	return o
}

// read reads all keys as they are now.
func (p *past) read(t *rapid.T) map[string]state {
	r, err := p.store.Range(context.Background(), []byte("\x00"), []byte{}, mvcc.RangeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]state{}
	for _, kv := range r.KVs {
		out[string(kv.Key)] = state{kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease, string(kv.Value)}
	}
	return out
}

// saved writes what there is into a file, and opens it.
func (p *past) saved(t *rapid.T, name string, o keyspace.FileOptions) keyspace.Source {
	p.be.ForceCommit()
	snap := p.be.Snapshot()
	defer snap.Close()
	f, err := os.Create(filepath.Join(p.dir, name))
	if err == nil {
		if _, err = snap.WriteTo(f); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return open(t, f.Name(), o)
}

func open(t interface{ Fatal(args ...any) }, path string, o keyspace.FileOptions) keyspace.Source {
	s, err := keyspace.OpenFile(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDifference: the difference of any two revisions is that of two full reads, and
// makes the one of the other.
func TestDifference(t *testing.T) {
	t.Parallel()
	seen, runs := map[string]int{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a test's
		p := newPast(rt, dir)
		defer p.close()
		memory := keyspace.FileOptions{Memory: rapid.SampledFrom([]int64{0, 1}).Draw(rt, "memory"), SpoolDir: dir}
		early := p.saved(rt, "early.db", memory)
		defer early.Close() //nolint:errcheck // only read
		earlyHead, earlyOldest := p.head(), p.oldest
		for range rapid.IntRange(0, 40).Draw(rt, "more changes") {
			p.change(rt)
		}
		late, again := p.saved(rt, "late.db", memory), open(rt, filepath.Join(dir, "late.db"), memory)
		defer late.Close()  //nolint:errcheck // only read
		defer again.Close() //nolint:errcheck // only read

		revA, revB := rapid.Int64Range(p.oldest, p.head()).Draw(rt, "A"), rapid.Int64Range(p.oldest, p.head()).Draw(rt, "B")
		for _, byRevision := range []bool{true, false} {
			p.hold(rt, diff.Side{Source: late, Rev: revA}, diff.Side{Source: again, Rev: revB}, byRevision)
		}
		// All that there is, in which most keys come and go.
		p.hold(rt, diff.Side{Source: late, Rev: p.oldest}, diff.Side{Source: again, Rev: p.head()}, true)
		revA = rapid.Int64Range(earlyOldest, earlyHead).Draw(rt, "A of the earlier file")
		p.hold(rt, diff.Side{Source: early, Rev: revA}, diff.Side{Source: late, Rev: revB}, false)
		p.hold(rt, diff.Side{Source: late, Rev: revB}, diff.Side{Source: early, Rev: revA}, true)

		runs++
		for name, has := range map[string]bool{"tombstones": p.traits.tombstones, "transactions": p.traits.txns, "re-creations": p.traits.recreations,
			"leases": p.traits.leases, "compactions": p.traits.compactions, "transient keys": p.traits.transients} {
			if has {
				seen[name]++
			}
		}
	})
	for name, n := range seen {
		t.Logf("%s in %d of %d histories", name, n, runs)
	}
	for _, name := range []string{"tombstones", "transactions", "re-creations", "leases", "compactions", "transient keys"} {
		if seen[name]*5 < runs {
			t.Errorf("%s in %d of %d histories only: the property was hardly tried", name, seen[name], runs)
		}
	}
}

// hold compares what a diff says with what two full reads say, with what happened in
// between and without, which two files are compared in another way for.
func (p *past) hold(t *rapid.T, a, b diff.Side, byRevision bool) {
	for _, history := range []bool{true, false} {
		p.holdOne(t, a, b, diff.Options{Layout: keys.Default(), ByRevision: byRevision, History: history, Fields: true})
	}
}

func (p *past) holdOne(t *rapid.T, a, b diff.Side, o diff.Options) {
	before, after := p.reads[a.Rev], p.reads[b.Rev]
	applied := maps.Clone(before)
	var last []byte
	got := map[string]diff.Kind{}
	sum, err := diff.Run(context.Background(), a, b, o, func(e *diff.Entry) error {
		if last != nil && bytes.Compare(last, e.Key) >= 0 {
			t.Errorf("%q after %q", e.Key, last)
		}
		last = bytes.Clone(e.Key)
		key := string(e.Key)
		got[key] = e.Kind
		if e.Kind == diff.Transient {
			p.traits.transients = true
			return nil
		}
		if e.A != nil && stateOf(e.A) != before[key] {
			t.Errorf("%q was %+v, it says %+v", key, before[key], *e.A)
		}
		if e.B == nil {
			delete(applied, key)
		} else {
			applied[key] = stateOf(e.B)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(applied, after) {
		t.Fatalf("%d → %d: applied to A it makes %v, B is %v", a.Rev, b.Rev, applied, after)
	}
	want := difference(before, after)
	from, to := min(a.Rev, b.Rev), max(a.Rev, b.Rev)
	for key, revs := range p.written {
		_, inA := before[key]
		_, inB := after[key]
		if o.History && !inA && !inB && slices.ContainsFunc(revs, func(r int64) bool {
			return r > from && r <= to && (r > p.oldest || p.reads[p.oldest][key].mod == r) // a compaction leaves the state at its revision
		}) {
			want[key] = diff.Transient
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%d → %d: %v, want %v\nA %v\nB %v", a.Rev, b.Rev, got, want, before, after)
	}
	if n := sum.Total.Keys(); n != int64(len(want)) {
		t.Fatalf("%d keys counted, want %d", n, len(want))
	}
}

func stateOf(s *diff.State) state {
	return state{s.CreateRevision, s.ModRevision, s.Version, s.Lease, string(s.Value)}
}

// difference compares two full reads.
func difference(before, after map[string]state) map[string]diff.Kind {
	out := map[string]diff.Kind{}
	for key, a := range before {
		b, ok := after[key]
		switch {
		case !ok:
			out[key] = diff.Removed
		case a.create != b.create:
			out[key] = diff.Recreated
		case a.value != b.value:
			out[key] = diff.Changed
		case a.lease != b.lease:
			out[key] = diff.Leased
		case a != b:
			out[key] = diff.Touched
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			out[key] = diff.Added
		}
	}
	return out
}

func (s state) String() string {
	return fmt.Sprintf("%d/%d/%d lease %d %q", s.create, s.mod, s.version, s.lease, s.value)
}
