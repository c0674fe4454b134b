package snapshot_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// inside is what a cluster has, and so what its snapshot must say.
type inside struct {
	keys, tombstones, leases, leasedKeys, maxTTL int64
	revision, compacted                          int64
	users, roles                                 int64
	auth                                         bool
	alarms, learners, members                    int
}

// A cluster that collects one thing after another, with a snapshot of each stage.
func TestWhatIsInTheBox(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	c.WaitSettled(t)
	ctx := servertest.Context(t, 90*time.Second)
	cli := c.Client(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want := inside{revision: 1, members: 1}
	check := func(stage string) {
		t.Helper()
		checkInside(ctx, t, c, stage, want)
	}
	check("nothing")

	for i := range 3 {
		lease, err := cli.Grant(ctx, int64(1000*(i+1)))
		must(err)
		for k := range 4 {
			_, err := cli.Put(ctx, fmt.Sprintf("\xff\x00%d/%d", i, k), "leased", clientv3.WithLease(lease.ID))
			must(err)
		}
	}
	want = inside{keys: 12, leases: 3, leasedKeys: 12, maxTTL: 3000, revision: 13, members: 1}
	check("leases and keys that are no text")

	for i := range 60 {
		_, err := cli.Put(ctx, fmt.Sprintf("k%02d", i%20), "value")
		must(err)
	}
	_, err := cli.Delete(ctx, "k1", clientv3.WithPrefix()) // ten of them
	must(err)
	want.keys, want.tombstones, want.revision = 22, 10, 74
	check("history and deletions")

	_, err = cli.Compact(ctx, 50, clientv3.WithCompactPhysical())
	must(err)
	_, err = cli.MemberAddAsLearner(ctx, []string{"http://127.0.0.1:1"})
	must(err)
	want.compacted, want.members, want.learners = 50, 2, 1
	check("compacted, with a learner")

	c.EnableAuth(t, servertest.User{Name: "app", Password: "pw", Prefix: "k"})
	_, err = etcdserverpb.NewMaintenanceClient(c.Client(t).ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE, MemberID: 0xabc})
	must(err)
	want.auth, want.users, want.roles, want.alarms = true, 2, 2, 1
	check("authentication and an alarm")
}

func checkInside(ctx context.Context, t *testing.T, c *servertest.Cluster, stage string, want inside) {
	t.Helper()
	cli := c.Client(t)
	stream, err := cli.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, "s.db", content)
	s, err := snapshot.Inspect(ctx, path, snapshot.Options{}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	got := inside{keys: s.Keys, tombstones: s.Tombstones, leases: s.Leases.Count, leasedKeys: s.Leases.Keys, maxTTL: s.Leases.MaxTTLSeconds,
		revision: s.Revision, compacted: s.CompactRevision, users: s.Auth.Users, roles: s.Auth.Roles, auth: s.Auth.Enabled,
		alarms: len(s.Alarms), members: len(s.Members)}
	for _, m := range s.Members {
		if m.Learner {
			got.learners++
		}
	}
	if got != want {
		t.Errorf("%s: %+v\nwant %+v", stage, got, want)
	}
	if s.Integrity.Class != snapshot.ClassWhole || s.StorageVersion != "3.7.0" || s.LiveBytes+s.HistoryBytes > s.InUseBytes {
		t.Errorf("%s: %+v, storage version %s, %d live, %d history, %d in use", stage, s.Integrity, s.StorageVersion, s.LiveBytes, s.HistoryBytes, s.InUseBytes)
	}
	hash, err := cli.HashKV(ctx, c.Endpoint(0), 0)
	if err != nil {
		t.Fatal(err)
	}
	if kv := s.Digests.KV; kv.Hash != hash.Hash || kv.Revision != hash.HashRevision || kv.CompactRevision != max(0, hash.CompactRevision) {
		t.Errorf("%s: digest %+v, the server says %v", stage, kv, hash)
	}
	v, err := snapshot.Verify(ctx, path, snapshot.Options{}, progress.Discard)
	if err != nil || v.Verdict != snapshot.Restorable {
		t.Fatalf("%s: %+v, %v", stage, v, err)
	}
	notes := map[string]bool{}
	for _, f := range v.Findings {
		notes[f.Class] = true
	}
	for class, there := range map[string]bool{"alarm_inside": want.alarms > 0, "auth_enabled": want.auth, "learner_inside": want.learners > 0, "leases_return": want.leases > 0} {
		if notes[class] != there {
			t.Errorf("%s: note %s is %v", stage, class, notes[class])
		}
	}
}

func TestLookingChangesNothing(t *testing.T) {
	good := realRegistry(t)
	for name, content := range map[string][]byte{"good": good, "raw": good[:len(good)-32], "cut": good[:1e6]} {
		dir := t.TempDir()
		path := filepath.Join(dir, "s.db")
		if err := os.WriteFile(path, content, 0o400); err != nil {
			t.Fatal(err)
		}
		old := time.Unix(1700000000, 5)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o500); err != nil { //nolint:gosec // a read-only folder
			t.Fatal(err)
		}
		for range 2 {
			if _, err := snapshot.Verify(context.Background(), path, snapshot.Options{}, progress.Discard); err != nil {
				t.Error(err)
			}
			if s, err := snapshot.Inspect(context.Background(), path, snapshot.Options{}, progress.Discard); s == nil || (name == "cut") != (fault.KindOf(err) == fault.Damage) {
				t.Error(name, err)
			}
		}
		info, err := os.Stat(path)
		after, rerr := os.ReadFile(path)
		if err != nil || rerr != nil || !info.ModTime().Equal(old) || !bytes.Equal(after, content) {
			t.Errorf("%s: modified at %v, %v, %v", name, info.ModTime(), err, rerr)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("%d files in the folder, %v", len(names), err)
		}
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // so that it can be removed
			t.Fatal(err)
		}
	}
}
