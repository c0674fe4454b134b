package diff_test

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/diff"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/codec"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/spool"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// scene is a server on which everything that a diff tells apart has happened
// between two revisions.
type scene struct {
	t    *testing.T
	c    *servertest.Cluster
	cli  *clientv3.Client
	m    *cluster.MemberClient
	a, b int64
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, c: servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})}
	s.cli = s.c.Client(t)
	kvd, err := cluster.Connect(cluster.Config{Endpoints: s.c.Endpoints(), Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kvd.Close() })
	view, err := kvd.View(servertest.Context(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if s.m, err = kvd.Member(view.Members[0].ID); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scene) put(key, value string, o ...clientv3.OpOption) int64 {
	s.t.Helper()
	r, err := s.cli.Put(servertest.Context(s.t, 20*time.Second), key, value, o...)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Header.Revision
}

func (s *scene) delete(key string, o ...clientv3.OpOption) int64 {
	s.t.Helper()
	r, err := s.cli.Delete(servertest.Context(s.t, 20*time.Second), key, o...)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Header.Revision
}

func (s *scene) lease() clientv3.LeaseID {
	s.t.Helper()
	l, err := s.cli.Grant(servertest.Context(s.t, 20*time.Second), 3600)
	if err != nil {
		s.t.Fatal(err)
	}
	return l.ID
}

// save saves a snapshot.
func (s *scene) save(name string) string {
	s.t.Helper()
	in, err := s.cli.Snapshot(servertest.Context(s.t, time.Minute))
	if err != nil {
		s.t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.Create(filepath.Join(s.t.TempDir(), name))
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // checked below
	compression := spool.None
	if strings.HasSuffix(name, ".zst") {
		compression = spool.Zstd
	}
	w, err := spool.Pack(out, compression)
	if err == nil {
		if _, err = io.Copy(w, in); err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return out.Name()
}

func (s *scene) live(rev int64) diff.Side {
	return diff.Side{Source: keyspace.OpenLive(s.m, keyspace.LiveOptions{}), Rev: rev}
}

func (s *scene) file(path string, rev int64) diff.Side {
	s.t.Helper()
	f := open(s.t, path, keyspace.FileOptions{})
	s.t.Cleanup(func() { f.Close() })
	return diff.Side{Source: f, Rev: rev}
}

// object is a custom resource with a field that can be changed.
func object(name string, replicas int, status string) string {
	return fmt.Sprintf(`{"apiVersion":"x.io/v1","kind":"App","metadata":{"name":%q,"namespace":"team","managedFields":[{"manager":"m%d"}]},`+
		`"spec":{"replicas":%d,"image":"app:1"},"status":{"phase":%q}}`, name, replicas, replicas, status)
}

const apps = "/registry/x.io/apps/team/"

// sides does everything between two revisions, saves a snapshot at each, and
// returns all pairs of sides that can be made of them.
func (s *scene) sides() map[string][2]diff.Side {
	old, fresh := s.lease(), s.lease()
	for i := range 5 {
		s.put(fmt.Sprintf("/registry/pods/doomed/p%d", i), "pod")
	}
	for _, name := range []string{"twice", "back", "again", "anew", "touched", "status", "same"} {
		s.put(apps+name, object(name, 1, "Ready"))
	}
	s.put("/registry/leases/team/l", "held", clientv3.WithLease(old))
	s.a = s.put("/plain", "one")
	before := s.save("a.db")

	s.delete("/registry/pods/doomed/", clientv3.WithPrefix())
	s.put(apps+"twice", object("twice", 2, "Ready"))
	s.put(apps+"twice", object("twice", 3, "Ready"))
	s.put(apps+"back", object("back", 9, "Ready"))
	s.put(apps+"back", object("back", 1, "Ready"))
	s.delete(apps + "again")
	s.put(apps+"again", object("again", 1, "Ready"))
	s.delete(apps + "anew")
	s.put(apps+"anew", object("anew", 7, "Ready"))
	s.put(apps+"touched", object("touched", 1, "Ready"))
	s.put(apps+"status", object("status", 1, "Lost"))
	s.put("/registry/leases/team/l", "held", clientv3.WithLease(fresh))
	s.put("/registry/configmaps/team/new", "k8s:enc:aescbc:v1:key1:xxxxxxxx")
	s.put("/transient", "x")
	s.put("/transient", "y")
	s.delete("/transient")
	s.b = s.put("/plain", "two")
	after := s.save("b.db.zst")
	return map[string][2]diff.Side{
		"two revisions":          {s.live(s.a), s.live(s.b)},
		"two snapshots":          {s.file(before, s.a), s.file(after, s.b)},
		"snapshot and live":      {s.file(before, s.a), s.live(s.b)},
		"live and snapshot":      {s.live(s.a), s.file(after, s.b)},
		"one snapshot, two ages": {s.file(after, s.a), s.file(after, s.b)},
		"data dir and live":      {s.file(s.c.DataDir(0), s.a), s.live(s.b)},
	}
}

// told is what is said of each key: its kind and fields.
func told(t *testing.T, a, b diff.Side, o diff.Options) (map[string]string, *diff.Summary) {
	t.Helper()
	out := map[string]string{}
	sum, err := diff.Run(t.Context(), a, b, o, func(e *diff.Entry) error {
		said := string(e.Kind)
		if e.Writes > 0 {
			said += fmt.Sprintf(" ×%d", e.Writes)
		}
		if e.ValueChanged {
			said += " value"
		}
		if e.LeaseChanged {
			said += " lease"
		}
		if e.IgnoredOnly {
			said += " ignored"
		}
		for _, f := range e.Fields {
			said += fmt.Sprintf(" %s:%v→%v", f.Path, f.Before, f.After)
		}
		out[string(e.Key)] = said
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, sum
}

// TestWhatHasHappened: a namespace deleted, objects changed twice, changed and
// changed back, re-created, touched, a lease re-attached (case C71 and more), across
// revisions, snapshots, and live and snapshot.
func TestWhatHasHappened(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	want := map[string]string{
		apps + "twice": "changed ×2 value metadata.managedFields[0].manager:m1→m3 spec.replicas:1→3",
		apps + "back":  "touched ×2", apps + "touched": "touched ×1", apps + "again": "recreated",
		apps + "anew":                   "recreated value metadata.managedFields[0].manager:m1→m7 spec.replicas:1→7",
		apps + "status":                 "changed ×1 value status.phase:Ready→Lost",
		"/registry/leases/team/l":       "lease ×1 lease",
		"/registry/configmaps/team/new": "added", "/plain": "changed ×1 value",
		"/transient": "transient ×2",
	}
	for i := range 5 {
		want[fmt.Sprintf("/registry/pods/doomed/p%d", i)] = "removed"
	}
	ignore, err := codec.ParseIgnore("managedFields", "status")
	if err != nil {
		t.Fatal(err)
	}
	for name, sides := range s.sides() {
		o := diff.Options{Layout: keys.Default(), Fields: true, History: true}
		for _, o.ByRevision = range []bool{false, true} {
			got, sum := told(t, sides[0], sides[1], o)
			if !maps.Equal(got, want) {
				t.Errorf("%s (by revision: %v): %v\nwant %v", name, o.ByRevision, got, want)
			}
			if c := sum.Total; c.Removed != 5 || c.Touched != 2 || c.Recreated != 2 || c.Changed != 3 || c.Leased != 1 || c.Added != 1 || c.Transient != 1 || c.BytesA == 0 {
				t.Errorf("%s: %+v", name, c)
			}
		}
		o.Ignore = ignore
		got, _ := told(t, sides[0], sides[1], o)
		if got[apps+"twice"] != "changed ×2 value spec.replicas:1→3" || got[apps+"status"] != "touched ×1 ignored" {
			t.Errorf("%s: without managedFields and status: %v", name, got)
		}
		o = diff.Options{Layout: keys.Default(), Select: keyspace.Selection{Namespaces: []string{"doomed"}}}
		got, sum := told(t, sides[0], sides[1], o)
		if len(got) != 5 || sum.Total.Removed != 5 {
			t.Errorf("%s: of the namespace: %v", name, got)
		}
	}
}

// Case C19: deleted and made again in one transaction, and compacted there: what is
// gone is told as removed, though no deletion is left to be seen.
func TestLostByACompaction(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.put("a", "1")
	s.put("b", "1")
	r, err := s.cli.Txn(servertest.Context(t, 20*time.Second)).Then(clientv3.OpDelete("a", clientv3.WithFromKey()), clientv3.OpPut("a", "2"), clientv3.OpPut("b", "2")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	rev := r.Header.Revision
	before := s.save("before.db")
	last := s.put("z", "last")
	if _, err := s.cli.Compact(servertest.Context(t, 20*time.Second), rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	got, _ := told(t, s.file(before, rev), s.file(s.save("after.db"), last), diff.Options{Layout: keys.Default(), History: true})
	if want := map[string]string{"a": "removed", "b": "removed", "z": "added"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Case C72: what can't be compared is said precisely.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for i := range 20 {
		s.put("k", fmt.Sprint(i))
	}
	head := s.put("k", "last")
	if _, err := s.cli.Compact(servertest.Context(t, 20*time.Second), 12, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	for name, side := range map[string]func(int64) diff.Side{"live": s.live, "file": func(rev int64) diff.Side { return s.file(s.c.DataDir(0), rev) }} {
		b, err := side(0).Bounds(t.Context())
		if err != nil || b != (keyspace.Bounds{Oldest: 12, Head: head}) {
			t.Fatalf("%s: %+v, %v", name, b, err)
		}
		for rev, cause := range map[int64]string{11: cluster.CauseCompacted, 12: "", head: "", head + 1: cluster.CauseFutureRevision} {
			_, err := diff.Run(t.Context(), side(rev), side(head), diff.Options{Layout: keys.Default()}, func(*diff.Entry) error { return nil })
			if fault.CauseOf(err) != cause || (err != nil && !strings.Contains(err.Error(), "oldest that can be read is 12") && !strings.Contains(err.Error(), fmt.Sprint("latest is ", head))) {
				t.Errorf("%s: from %d: %v, want %q", name, rev, err, cause)
			}
		}
	}
}

// What a function of the caller's returns ends the comparison and comes back.
func TestStopped(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for i := range 50 {
		s.put(fmt.Sprintf("k%02d", i), "v")
	}
	head := s.put("z", "v")
	seen := []string{}
	sum, err := diff.Run(t.Context(), s.live(1), s.live(head), diff.Options{Layout: keys.Default()}, func(e *diff.Entry) error {
		if seen = append(seen, string(e.Key)); len(seen) == 3 {
			return fault.New(fault.Interrupted, "enough")
		}
		return nil
	})
	if fault.KindOf(err) != fault.Interrupted || !slices.Equal(seen, []string{"k00", "k01", "k02"}) || sum.Total.Added != 3 {
		t.Errorf("%v, %q, %+v", err, seen, sum.Total)
	}
}
