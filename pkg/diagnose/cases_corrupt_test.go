package diagnose_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"kvd/pkg/server/servertest"
)

// edit changes the record of a key's latest revision in a stopped member's database;
// a nil result removes it.
func edit(t *testing.T, path, key string, change func(*mvccpb.KeyValue) *mvccpb.KeyValue) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("key"))
		cur := b.Cursor()
		for k, v := cur.Last(); k != nil; k, v = cur.Prev() {
			var kv mvccpb.KeyValue
			if err := proto.Unmarshal(v, &kv); err != nil {
				return err
			}
			if string(kv.Key) != key {
				continue
			}
			out := change(&kv)
			if out == nil {
				return b.Delete(k)
			}
			raw, err := proto.Marshal(out)
			if err != nil {
				return err
			}
			return b.Put(k, raw)
		}
		return fmt.Errorf("no record of %s", key)
	})
	if cerr := db.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
}

func otherValue(kv *mvccpb.KeyValue) *mvccpb.KeyValue { kv.Value[0] ^= 1; return kv }

// Cases C68 and C70: one member's data were changed offline. Which, and which keys;
// the alarm; and the whole remedy.
func TestCaseMembersDiffer(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 0)
	put(t, c.Client(t), "/registry/pods/a/p", 200, 50, 100)
	stop(t, c, 1)
	edit(t, c.DBPath(1), "/registry/pods/a/p1", otherValue)
	edit(t, c.DBPath(1), "/registry/pods/a/p2", func(*mvccpb.KeyValue) *mvccpb.KeyValue { return nil })
	edit(t, c.DBPath(1), "/registry/pods/a/p3", func(kv *mvccpb.KeyValue) *mvccpb.KeyValue { kv.Version += 3; return kv })
	if err := c.StartMember(servertest.Context(t, time.Minute), 1); err != nil {
		t.Fatal(err)
	}
	client := connect(t, c)
	belongs(t, look(t, client)) // without --hash nothing shows it
	r := look(t, client, withHash)
	belongs(t, r, "KVD-CORRUPT-002 critical")
	f := finding(t, r, "KVD-CORRUPT-002")
	if f.Subject != "m2" {
		t.Errorf("subject %q", f.Subject)
	}
	for key, what := range map[string]string{"p1": "other value", "p3": "version 7 and 4"} {
		if e := evidence(t, f, "key /registry/pods/a/"+key); e.Text != what {
			t.Errorf("%s: %q, want %q", key, e.Text, what)
		}
	}
	evidence(t, f, "key /registry/pods/a/p2")

	if _, err := c.Client(t).AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil { // none is raised
		t.Fatal(err)
	}
	raise(t, c, 0) // and the alarm names another
	r = look(t, client, withHash)
	belongs(t, r, "KVD-CORRUPT-001 critical", "KVD-CORRUPT-002 critical")
	f = finding(t, r, "KVD-CORRUPT-001")
	mentions(t, f.Summary, "CORRUPT is raised for m1", "by kvd's own comparison it is m2")
	if e := evidence(t, f, "/readyz"); e.Text != "503" {
		t.Errorf("/readyz: %s", e.Text)
	}
	shows(t, r, "KVD-CORRUPT-001")
	shows(t, r, "KVD-CORRUPT-002")
	if len(f.Remedy) != 3 || f.Remedy[1] != "kvd member replace m2" {
		t.Errorf("remedy %q", f.Remedy)
	}
}

// raise activates a CORRUPT alarm of a member.
func raise(t *testing.T, c *servertest.Cluster, member int) {
	t.Helper()
	s, err := c.Client(t).Status(t.Context(), c.Endpoint(member))
	if err != nil {
		t.Fatal(err)
	}
	_, err = etcdserverpb.NewMaintenanceClient(c.Client(t).ActiveConnection()).Alarm(t.Context(),
		&etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: s.Header.MemberId, Alarm: etcdserverpb.AlarmType_CORRUPT})
	if err != nil {
		t.Fatal(err)
	}
}

// Case C19: a transaction deletes and puts the same keys, and a compaction to its
// own revision takes the fresh ones. A range that was only deleted is no such case.
func TestCaseFreshKeysGone(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name  string
		fresh bool
		keys  []string
		want  []string
	}{{"two keys", true, []string{"a", "b"}, []string{"KVD-CORRUPT-006 critical"}}, {"binary keys", true, []string{"\x01", "\xfe\xff", "z"}, []string{"KVD-CORRUPT-006 critical"}},
		{"deleted only", false, []string{"a", "b"}, nil}} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := begin(t, 1, 0)
			client, ctx := c.Client(t), servertest.Context(t, time.Minute)
			then := []clientv3.Op{clientv3.OpDelete("\x00", clientv3.WithFromKey())}
			for _, k := range p.keys {
				if _, err := client.Put(ctx, k, "1"); err != nil {
					t.Fatal(err)
				}
				if p.fresh {
					then = append(then, clientv3.OpPut(k, "2"))
				}
			}
			resp, err := client.Txn(ctx).Then(then...).Commit()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Compact(ctx, resp.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
			settleDisk(t)
			stop(t, c, 0)
			r := lookAt(t, c.DataDir(0))
			belongs(t, r, p.want...)
			if p.fresh {
				shows(t, r, "KVD-CORRUPT-006")
				f := finding(t, r, "KVD-CORRUPT-006")
				if evidence(t, f, "compacted to").Value != float64(resp.Header.Revision) || evidence(t, f, "live keys").Value != 0 {
					t.Errorf("%+v", f.Evidence)
				}
			}
		})
	}
}

// Case C64: a page of the database points where it must not.
func TestCaseWildPointers(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	put(t, c.Client(t), "k", 2000, 2000, 100)
	settleDisk(t)
	stop(t, c, 0)
	belongs(t, lookAt(t, c.DataDir(0)))
	for name, to := range map[string]uint64{"out of bounds": 1e15, "to itself": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			copyDir(t, c.DataDir(0), dir)
			poke(t, filepath.Join(dir, "member", "snap", "db"), to)
			r := lookAt(t, dir)
			belongs(t, r, "KVD-CORRUPT-005 critical")
			shows(t, r, "KVD-CORRUPT-005")
		})
	}
}

// poke puts another page into the first child of the first branch page; 0: its own.
func poke(t *testing.T, path string, to uint64) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	size, branch := db.Info().PageSize, 0
	err = db.View(func(tx *bolt.Tx) error {
		for id := 2; branch == 0; id++ {
			p, err := tx.Page(id)
			if err != nil || p == nil {
				return fmt.Errorf("no branch page: %w", err)
			}
			if p.Type == "branch" {
				branch = id
			}
		}
		return nil
	})
	if cerr := db.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	if to == 0 {
		to = uint64(branch)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], to)
	overwrite(t, path, int64(branch*size)+16+8, b[:]) // the header, then pos and ksize of the first element
}
