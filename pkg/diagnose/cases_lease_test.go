package diagnose_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/servertest"
)

// A lease is gone from a member's database and its keys are not: they stay for ever.
// Keys with their leases, and leases that come and go while kvd looks, are no finding.
func TestCaseLostLease(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client, ctx := c.Client(t), servertest.Context(t, 2*time.Minute)
	lock := func(key string, ttl int64) clientv3.LeaseID {
		l, err := client.Grant(ctx, ttl)
		if err == nil {
			_, err = client.Put(ctx, key, "held", clientv3.WithLease(l.ID))
		}
		if err != nil {
			t.Fatal(err)
		}
		return l.ID
	}
	lost := lock("/locks/a", 3600)
	lock("/locks/b", 3600)
	busy := every(t, 5*time.Millisecond, func(ctx context.Context) {
		l, err := client.Grant(ctx, 60)
		if err != nil {
			return
		}
		_, _ = client.Put(ctx, "/brief/a", "held", clientv3.WithLease(l.ID))
		_, _ = client.Revoke(ctx, l.ID)
	})
	before := look(t, connect(t, c))
	busy()
	if before.Has("KVD-LEASE-005") {
		t.Errorf("%q", got(before))
	}
	settleDisk(t)
	stop(t, c, 0)
	db, err := bolt.Open(c.DBPath(0), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("lease")).Delete(binary.BigEndian.AppendUint64(nil, uint64(lost)))
	})
	if cerr := db.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	if err := c.StartMember(ctx, 0); err != nil {
		t.Fatal(err)
	}
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-LEASE-005 warning")
	mentions(t, finding(t, r, "KVD-LEASE-005").Summary, "/locks/a")
	if _, err := c.Client(t).Delete(ctx, "/locks/a"); err != nil {
		t.Fatal(err)
	}
	good := look(t, connect(t, c))
	belongs(t, good)
	remedied(t, "KVD-LEASE-005", r, good, "etcdctl del /locks/a, once nobody holds it any more")
}
