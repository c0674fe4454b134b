//go:build long

package diagnose_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// members changes the bucket "members" of a database that nobody has open.
func members(t *testing.T, path string, change func(id string, m map[string]any) bool, more map[string]string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("members"))
		put := map[string]string{}
		err := b.ForEach(func(k, v []byte) error {
			m := map[string]any{}
			d := json.NewDecoder(strings.NewReader(string(v)))
			d.UseNumber()
			if err := d.Decode(&m); err != nil {
				return err
			}
			if change(string(k), m) {
				raw, err := json.Marshal(m)
				put[string(k)] = string(raw)
				return err
			}
			return nil
		})
		for _, all := range []map[string]string{put, more} {
			for k, v := range all {
				if err == nil {
					err = b.Put([]byte(k), []byte(v))
				}
			}
		}
		return err
	})
	if cerr := db.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
}

// The traps between 3.5 and 3.6, on the files of a real 3.5: a learner whose promotion
// is not in the database, and a member that was removed and still is. From the
// directory alone, by its log; and beside the running cluster, by its member list.
func TestCaseUpdateFrom35(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Command: local.Command{Path: servertest.OldServer(t, "3.5")}, Args: []string{"--unsafe-no-fsync"}}})
	ctx := servertest.Context(t, 3*time.Minute)
	client := c.Client(t)
	i, err := c.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	var learnerID, gone uint64
	waitFor(t, func() bool { // etcd wants to have seen its peers for 5 s
		r, err := client.MemberAddAsLearner(ctx, []string{c.PeerURL(i)})
		if err == nil {
			learnerID = r.Member.ID
		}
		return err == nil
	})
	if err := c.StartMember(ctx, i); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { _, err := client.MemberPromote(ctx, learnerID); return err == nil })
	leaves, stays := 1, 2
	if c.Leader(t) == leaves {
		leaves, stays = 2, 1
	}
	known, err := client.MemberList(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range known.Members {
		if m.Name == c.Name(leaves) {
			gone = m.ID
		}
	}
	waitFor(t, func() bool { _, err := client.MemberRemove(ctx, gone); return err == nil })
	put(t, c.Client(t, c.Endpoint(0)), "k", 20, 5, 10)
	settleDisk(t)
	dir := filepath.Join(t.TempDir(), "copy")
	stop(t, c, 0)
	copyDir(t, c.DataDir(0), dir)
	if err := c.StartMember(ctx, 0); err != nil {
		t.Fatal(err)
	}

	good := update(t, nil, "3.6", dir)
	belongs(t, good)
	learner := fmt.Sprintf("%x", learnerID)
	members(t, filepath.Join(dir, "member", "snap", "db"), func(id string, m map[string]any) bool {
		m["isLearner"] = true
		return id == learner
	}, map[string]string{fmt.Sprintf("%x", gone): fmt.Sprintf(`{"id":%d,"peerURLs":["http://127.0.0.1:9"],"name":%q}`, gone, c.Name(leaves))})
	r := update(t, nil, "3.6", dir)
	told := strings.Join(of(r, "KVD-VERSION-004"), "\n")
	mentions(t, told, "critical "+c.Name(leaves)+" was removed and is still in the database", "is a voter, and a learner in the database")
	if n := len(of(r, "KVD-VERSION-004")); n != 2 {
		t.Errorf("%d findings: %s", n, told)
	}
	remedied(t, "KVD-VERSION-004", r, good, "3.5.26 or later on all members first, which keeps both stores the same")

	log := filepath.Join(dir, "member", "wal")
	if err := os.RemoveAll(log); err != nil { // a database alone, as a snapshot is one
		t.Fatal(err)
	}
	live := options()
	in, err := diagnose.Collect(ctx, connect(t, c, c.Endpoint(0), c.Endpoint(stays), c.Endpoint(3)), live, discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.AddFile(ctx, filepath.Join(dir, "member", "snap", "db"), diagnose.DirOptions{}, discard); err != nil {
		t.Fatal(err)
	}
	if err := in.AddTarget("3.6", nil); err != nil {
		t.Fatal(err)
	}
	beside := of(diagnose.Diagnose(in), "KVD-VERSION-004")
	if len(beside) != 2 || !slices.ContainsFunc(beside, func(s string) bool { return strings.Contains(s, c.Name(leaves)+" was removed") }) {
		t.Errorf("beside the running cluster: %q", beside)
	}
}

// From 3.7 to 3.8: flags of a static pod that 3.7 says will go, and the storage that is
// still of 3.6. A manifest without them and a storage of 3.7 are well.
func TestCaseUpdateTo38(t *testing.T) {
	t.Parallel()
	manifest := func(flags string) string {
		path := filepath.Join(t.TempDir(), "etcd.yaml")
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd, namespace: kube-system}\nspec:\n  containers:\n  - name: etcd\n    command:\n    - etcd\n    - --data-dir=/var/lib/etcd\n    # - --v2-deprecation=gone\n" + flags
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := begin(t, 1, 0)
	belongs(t, update(t, c, "3.8", "", manifest("    - --listen-client-urls=https://127.0.0.1:2379\n")))
	r := update(t, c, "3.8", "", manifest("    - --max-snapshots=5\n    - --v2-deprecation=not-yet\n"))
	belongs(t, r, "KVD-VERSION-004 critical", "KVD-VERSION-004 critical")
	settleDisk(t)
	stop(t, c, 0)
	belongs(t, update(t, nil, "3.8", c.DataDir(0)))
	db, err := bolt.Open(c.DBPath(0), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("storageVersion"), []byte("3.6.0"))
	})
	if cerr := db.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	r = update(t, nil, "3.8", c.DataDir(0))
	belongs(t, r, "KVD-VERSION-004 critical")
	mentions(t, r.Findings[0].Summary, "the storage is of version 3.6.0 and the cluster of 3.7")
}
