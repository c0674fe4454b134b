package snapshot_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// oneMember is a cluster of one, as flags without a member make it.
func oneMember() snapshot.Recipe {
	return snapshot.Recipe{Members: []snapshot.RecipeMember{{Name: "m1", PeerURLs: []string{"http://localhost:2380"}}}}
}

// restore runs a restore of one member to the end.
func restore(t testing.TB, file string, r snapshot.Recipe, to snapshot.RestoreTarget) (plan.Report, error) {
	t.Helper()
	to.Name = r.Members[0].Name
	return restoreAll(t, snapshot.RestoreOptions{File: file, Recipe: r, Here: []snapshot.RestoreTarget{to}})
}

func restoreAll(t testing.TB, o snapshot.RestoreOptions) (plan.Report, error) {
	t.Helper()
	p, err := snapshot.PlanRestore(context.Background(), o, progress.Discard)
	if err != nil {
		return plan.Report{}, err
	}
	report, err := p.Plan.Run(context.Background(), nil, progress.Discard)
	return report, errors.Join(err, p.Close())
}

// buckets reads a whole backend file with bbolt.
func buckets(t testing.TB, path string) map[string]map[string]string {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // only read
	all := map[string]map[string]string{}
	err = db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			all[string(name)] = map[string]string{}
			return b.ForEach(func(k, v []byte) error { all[string(name)][string(k)] = string(v); return nil })
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sameContent compares with bbolt what a restore has to leave as it is.
func sameContent(t testing.TB, file, dataDir string, bumped, alarmsCleared bool) {
	t.Helper()
	want, got := buckets(t, file), buckets(t, filepath.Join(dataDir, "member", "snap", "db"))
	for _, name := range []string{"members", "members_removed", "meta"} {
		delete(want, name)
		delete(got, name)
	}
	if alarmsCleared {
		want["alarm"] = map[string]string{}
	}
	if bumped {
		last := slices.Max(slices.Collect(maps.Keys(got["key"])))
		if got["key"][last] != "" {
			t.Errorf("the last record %q is not the empty one of a bump", last)
		}
		delete(got["key"], last)
	}
	for name := range want {
		if !maps.Equal(want[name], got[name]) {
			t.Errorf("bucket %s: %d records, want %d (or others)", name, len(got[name]), len(want[name]))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d buckets, want %d", len(got), len(want))
	}
}

// empty fails where a folder has anything in it but what is named.
func onlyIn(t testing.TB, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) {
			t.Errorf("%s is left in %s", e.Name(), dir)
		}
	}
}

func TestRestoreRegistry(t *testing.T) {
	file := write(t, "s.db", realRegistry(t))
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	report, err := restore(t, file, oneMember(), snapshot.RestoreTarget{DataDir: data})
	if err != nil {
		t.Fatal(err)
	}
	onlyIn(t, dir, "data")
	onlyIn(t, filepath.Join(data, "member"), "snap", "wal", "kvd-restore.json")
	sameContent(t, file, data, false, false)
	was, is := status(t, file), status(t, filepath.Join(data, "member", "snap", "db"))
	if was.Digests.KV != is.Digests.KV || was.Keys != is.Keys || was.Leases != is.Leases || is.Members[0].Name != "m1" {
		t.Errorf("restored: %+v, was %+v", is, was)
	}
	if report.Outcome != plan.OutcomeDone || !strings.Contains(report.Steps[0].Reason, "573 keys") {
		t.Errorf("%+v", report)
	}

	// Again: it is there. With another bump it is something else.
	report, err = restore(t, file, oneMember(), snapshot.RestoreTarget{DataDir: data})
	if err != nil || report.Outcome != plan.OutcomeNothing {
		t.Errorf("again: %+v, %v", report, err)
	}
	other := oneMember()
	other.BumpRevision = 5
	if _, err = restore(t, file, other, snapshot.RestoreTarget{DataDir: data}); fault.CauseOf(err) != "target_exists" || !strings.Contains(err.Error(), "restored by kvd") {
		t.Errorf("another restore into it: %v", err)
	}
}

func status(t testing.TB, path string) *snapshot.Status {
	t.Helper()
	s, err := snapshot.Inspect(context.Background(), path, snapshot.Options{}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Bumped, into folders that are there and empty, with the log elsewhere.
func TestRestoreBumpedIntoEmptyFolders(t *testing.T) {
	file := write(t, "s.db", realRegistry(t))
	dir := t.TempDir()
	data, wal := filepath.Join(dir, "data"), filepath.Join(dir, "wal")
	for _, d := range []string{data, wal, filepath.Join(data, "lost+found")} {
		if err := os.Mkdir(d, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	links := t.TempDir() // a link stays, and what it leads to is filled
	if err := errors.Join(os.Symlink(data, filepath.Join(links, "data")), os.Symlink(wal, filepath.Join(links, "wal"))); err != nil {
		t.Fatal(err)
	}
	r := oneMember()
	r.BumpRevision = snapshot.AutoBump
	if _, err := restore(t, file, r, snapshot.RestoreTarget{DataDir: filepath.Join(links, "data"), WALDir: filepath.Join(links, "wal")}); err != nil {
		t.Fatal(err)
	}
	onlyIn(t, dir, "data", "wal")
	if info, err := os.Lstat(filepath.Join(links, "wal")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is now %v, %v", info, err)
	}
	onlyIn(t, data, "member", "lost+found")
	onlyIn(t, wal, "0000000000000000-0000000000000000.wal")
	onlyIn(t, filepath.Join(data, "member"), "snap", "kvd-restore.json")
	sameContent(t, file, data, true, false)
	if s := status(t, filepath.Join(data, "member", "snap", "db")); s.Revision != 1189+snapshot.AutoBump || *s.PendingCompactRevision != s.Revision {
		t.Errorf("%+v", s)
	}
}

// What is refused leaves nothing, and the same target can be used then.
func TestRestoreRefuses(t *testing.T) {
	good := realRegistry(t)
	flipped := slices.Clone(good)
	flipped[1_500_000]++
	held := write(t, "held.db", good[:len(good)-32])
	db, err := bolt.Open(held, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	skip := oneMember()
	skip.SkipHashCheck = true
	another := oneMember()
	another.Snapshot.SHA256 = fmt.Sprintf("%x", sha256.Sum256([]byte("x")))
	far := oneMember()
	far.BumpRevision = 1<<63 - 1
	dir := t.TempDir()
	to := snapshot.RestoreTarget{DataDir: filepath.Join(dir, "data"), WALDir: filepath.Join(dir, "wal")}
	for _, c := range []struct {
		name  string
		file  string
		r     snapshot.Recipe
		kind  fault.Kind
		cause string
	}{
		{"cut at a page, told to skip the hash", write(t, "cut.db", good[:1122304]), skip, fault.Damage, "truncated"},
		{"cut", write(t, "cut.db", good[:2_000_000]), oneMember(), fault.Damage, "truncated"},
		{"no hash", write(t, "raw.db", good[:len(good)-32]), oneMember(), fault.Refused, "raw_copy"},
		{"changed", write(t, "flip.db", flipped), oneMember(), fault.Damage, "hash_mismatch"},
		{"empty", write(t, "empty.db", nil), skip, fault.Damage, "not_a_snapshot"},
		{"held", held, skip, fault.Refused, "file_in_use"},
		{"another than the plan's", write(t, "s.db", good), another, fault.Refused, "another_snapshot"},
		{"bumped beyond 64 bits", write(t, "s.db", good), far, fault.Usage, "bump_revision"},
		{"none", filepath.Join(dir, "none.db"), skip, fault.Usage, "no_such_file"},
	} {
		began := time.Now()
		_, err := restore(t, c.file, c.r, to)
		if fault.KindOf(err) != c.kind || fault.CauseOf(err) != c.cause || fault.HintOf(err) == "" && c.kind != fault.Usage {
			t.Errorf("%s: %v (%s, %s); want %s, %s", c.name, err, fault.KindOf(err), fault.CauseOf(err), c.kind, c.cause)
		}
		if took := time.Since(began); c.name == "held" && (took > 2*time.Second || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid()))) {
			t.Errorf("held: %v after %s", err, took)
		}
		onlyIn(t, dir)
	}
	for _, file := range []string{write(t, "raw.db", good[:len(good)-32]), write(t, "flip.db", flipped)} {
		if _, err := restore(t, file, skip, snapshot.RestoreTarget{DataDir: filepath.Join(t.TempDir(), "d")}); err != nil {
			t.Errorf("%s, told to skip the hash: %v", filepath.Base(file), err)
		}
	}
}

// A folder with something in it is left as it is, and said what it is.
func TestRestoreLeavesWhatIsThere(t *testing.T) {
	file := write(t, "s.db", realRegistry(t))
	dir := t.TempDir()
	taken, member := filepath.Join(dir, "taken"), filepath.Join(dir, "member-data")
	if err := errors.Join(os.Mkdir(taken, 0o700), os.WriteFile(filepath.Join(taken, "precious"), nil, 0o600),
		os.MkdirAll(filepath.Join(member, "member", "snap"), 0o700), os.WriteFile(filepath.Join(member, "member", "snap", "db"), realRegistry(t), 0o600)); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, ".data.kvd-restore")
	if err := errors.Join(os.Mkdir(foreign, 0o700), os.WriteFile(filepath.Join(foreign, "precious"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ data, wal, want string }{
		{taken, "", "precious"},
		{member, "", "of a cluster of"},
		{filepath.Join(dir, "new"), taken, "precious"},
		{file, "", "a file"},
		{filepath.Join(dir, "data"), "", "precious"},
		{filepath.Join(dir, "new"), filepath.Join(dir, "new", "wal"), ""},
		{filepath.Join(dir, "none", "data"), "", "no such file"},
	} {
		if _, err := restore(t, file, oneMember(), snapshot.RestoreTarget{DataDir: c.data, WALDir: c.wal}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("into %s: %v; want %q in it", c.data, err, c.want)
		}
	}
	onlyIn(t, dir, "taken", "member-data", ".data.kvd-restore")
}

// A live server's snapshot with everything in it that a restore must carry.
func TestRestoreEverything(t *testing.T) {
	t.Parallel()
	file, rev := everything(t)
	for _, bump := range []int64{0, 1000} {
		dir := t.TempDir()
		r := oneMember()
		r.BumpRevision, r.ClearAlarms = bump, bump > 0
		data := filepath.Join(dir, "data")
		if _, err := restore(t, file, r, snapshot.RestoreTarget{DataDir: data}); err != nil {
			t.Fatal(err)
		}
		sameContent(t, file, data, bump > 0, r.ClearAlarms)
		s := status(t, filepath.Join(data, "member", "snap", "db"))
		alarms := 1
		if r.ClearAlarms {
			alarms = 0
		}
		if s.Revision != rev+bump || !s.Auth.Enabled || s.Auth.Users != 2 || s.Leases.Count != 2 || s.Leases.Keys != 3 || len(s.Alarms) != alarms || len(s.Members) != 1 || s.MembersRemoved != 0 {
			t.Errorf("bump %d: %+v", bump, s)
		}
	}
}

// everything makes a snapshot with history, a compaction, leases, users, an alarm
// and a learner in it, and returns its revision.
func everything(t testing.TB) (path string, revision int64) {
	t.Helper()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	c.WaitSettled(t)
	cli, ctx := c.Client(t), servertest.Context(t, 60*time.Second)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		lease, err := cli.Grant(ctx, int64(600+i))
		must(err)
		for k := range 1 + i {
			_, err = cli.Put(ctx, fmt.Sprintf("leased/%d/%d", i, k), "v", clientv3.WithLease(lease.ID))
			must(err)
		}
	}
	for i := range 60 {
		_, err := cli.Put(ctx, fmt.Sprintf("k%d", i%7), fmt.Sprint(i))
		must(err)
	}
	_, err := cli.Compact(ctx, 30)
	must(err)
	deleted, err := cli.Delete(ctx, "k3")
	must(err)
	_, err = cli.MemberAddAsLearner(ctx, []string{"http://127.0.0.1:1"})
	must(err)
	c.EnableAuth(t, servertest.User{Name: "reader", Password: "secret", Prefix: "leased/"})
	root := c.Client(t)
	status, err := root.Status(ctx, c.Endpoint(0))
	must(err)
	_, err = etcdserverpb.NewMaintenanceClient(root.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: etcdserverpb.AlarmType_NOSPACE})
	must(err)
	stream, err := root.Snapshot(ctx)
	must(err)
	content, err := io.ReadAll(stream)
	must(errors.Join(err, stream.Close()))
	return write(t, "everything.db", content), deleted.Header.Revision
}

// A run for all members finishes what an earlier one began: what is in its place
// stays, the rest is made. Members that were used since are not touched.
func TestRestoreOfAllGoesOn(t *testing.T) {
	file, dir := write(t, "s.db", realRegistry(t)), t.TempDir()
	o := snapshot.RestoreOptions{File: file, Recipe: snapshot.Recipe{BumpRevision: 1000}}
	for i := range 3 {
		name := fmt.Sprint("m", i)
		o.Recipe.Members = append(o.Recipe.Members, snapshot.RecipeMember{Name: name, PeerURLs: []string{fmt.Sprint("http://127.0.0.1:", 2380+i)}})
		o.Here = append(o.Here, snapshot.RestoreTarget{Name: name, DataDir: filepath.Join(dir, name), WALDir: filepath.Join(dir, name+".wal")})
	}
	one := o
	one.Here = o.Here[1:2]
	if _, err := restoreAll(t, one); err != nil {
		t.Fatal(err)
	}
	report, err := restoreAll(t, o)
	if err != nil || report.Outcome != plan.OutcomeDone || len(report.Steps) != 4 || report.Steps[2].State != plan.Skipped {
		t.Fatalf("%+v, %v", report, err)
	}
	onlyIn(t, dir, "m0", "m1", "m2", "m0.wal", "m1.wal", "m2.wal")
	for _, to := range o.Here {
		sameContent(t, file, to.DataDir, true, false)
	}
	db := filepath.Join(dir, "m1", "member", "snap", "db")
	if err := os.Chtimes(db, time.Time{}, time.Now()); err != nil { // as a server does that runs on it
		t.Fatal(err)
	}
	if _, err := restoreAll(t, o); fault.CauseOf(err) != "target_exists" || !strings.Contains(err.Error(), "used since") {
		t.Errorf("over one that was used: %v", err)
	}
}
