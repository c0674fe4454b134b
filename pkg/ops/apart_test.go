package ops_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// loseRevisions takes the newest n revisions out of a stopped member's file, which
// goes on saying that all of them were applied.
func loseRevisions(t *testing.T, path string, n uint64) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		c := tx.Bucket([]byte("key")).Cursor()
		k, _ := c.Last()
		for from := binary.BigEndian.Uint64(k) - n; binary.BigEndian.Uint64(k) > from; k, _ = c.Last() {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A member whose revision is lower than that of another at the same index holds other
// data (etcd issues 8214, 16106, 20451): it refuses compactions of revisions that it
// does not have, and grows until NOSPACE. No alarm says so, so that whoever is about to
// compact or defragment must.
func TestMembersThatAreApartAreNotCompacted(t *testing.T)      { membersThatAreApart(t, 3) }
func TestMembersThatAreApartAreNotCompacted_more(t *testing.T) { membersThatAreApart(t, 5) }

func membersThatAreApart(t *testing.T, sizes ...int) {
	t.Parallel()
	for _, members := range sizes {
		t.Run(fmt.Sprintf("%d members", members), func(t *testing.T) {
			t.Parallel()
			p := world{members: members, quota: 8 * mib, keyFmt: "/registry/pods/default/p%d"}.build(t)
			ctx := servertest.Context(t, 2*time.Minute)
			p.put(t, 500, 20, 1024)
			if got := ops.Apart(ctx, p.KVD, p.view(t)); got != "" {
				t.Errorf("all is well, and yet %s", got)
			}
			odd := (p.Leader(t) + 1) % members
			if err := p.StopMember(ctx, odd); err != nil {
				t.Fatal(err)
			}
			loseRevisions(t, p.DBPath(odd), 100)
			if err := p.StartMember(ctx, odd); err != nil {
				t.Fatal(err)
			}
			p.Cluster.WaitSettled(t)
			v := p.view(t)
			if got := ops.Apart(ctx, p.KVD, v); !strings.HasPrefix(got, p.Name(odd)+" (") || !strings.Contains(got, "revision 501 and is at 401") {
				t.Errorf("apart: %q", got)
			}
			o := ops.DefaultCompactOptions()
			o.Goal.Head = true
			_, err := ops.PlanCompact(ctx, p.KVD, v, o, progress.Discard)
			refused(t, "compact", err)
			_, err = ops.PlanRecover(ctx, p.KVD, v, ops.DefaultRecoverOptions(), progress.Discard)
			refused(t, "recover", err)
			_, err = ops.PlanDefrag(ctx, p.KVD, v, ops.DefaultDefragOptions(), progress.Discard)
			refused(t, "defrag", err)
		})
	}
}

func refused(t *testing.T, what string, err error) {
	t.Helper()
	if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != cluster.CauseCorrupt || !strings.Contains(fault.HintOf(err), "member replace") {
		t.Errorf("%s: %v", what, err)
	}
}

// While much is written no status is taken at one instant, and members that hold the
// same look apart for a moment. They are not called so.
func TestBusyMembersAreNotApart_more(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 256 * mib, keyFmt: "/registry/leases/n%d"}.build(t)
	ctx := servertest.Context(t, time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		each(4000, func(i int) bool { _, err := p.Client.Put(ctx, p.key(i%100), "x"); return err == nil })
	}()
	for looks := 0; ; looks++ {
		select {
		case <-done:
			t.Logf("%d looks", looks)
			return
		default:
		}
		if got := ops.Apart(ctx, p.KVD, p.view(t)); got != "" {
			t.Fatalf("look %d: %s", looks, got)
		}
	}
}
