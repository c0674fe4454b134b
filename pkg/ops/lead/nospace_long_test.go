//go:build long

package lead_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/lead"
	"kvd/pkg/server/servertest"
)

// TestUnderNoSpace: who holds the election keeps it; who comes too late looks,
// and refuses if anybody else is at it.
func TestUnderNoSpace(t *testing.T) {
	t.Parallel()
	c := start(t, 1, 16<<20)
	cli := c.Client(t)
	early := stand(t, c, options("defrag", 10*time.Second))
	turn(t, early, "")
	value := strings.Repeat("x", 1<<20)
	for i := 0; ; i++ {
		if _, err := cli.Put(t.Context(), "fill", value); errors.Is(err, rpctypes.ErrNoSpace) {
			break
		} else if err != nil || i > 40 {
			t.Fatal(i, err)
		}
	}
	late := stand(t, c, options("defrag", 10*time.Second))
	_, err := turn(t, late, lead.CauseOther)
	if fault.KindOf(err) != fault.Refused || !strings.Contains(err.Error(), "not written down under NOSPACE") {
		t.Error(err)
	}
	// Two TTLs later the holder still has it: a lease lives on under NOSPACE.
	ctx, cancel := context.WithTimeout(t.Context(), 21*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		held, err := early.Turn(t.Context())
		if err != nil || held.Blind() {
			t.Fatalf("the holder lost the election under NOSPACE: %v", err)
		}
		<-time.After(200 * time.Millisecond)
	}
	early.Close(t.Context())
	got, _ := turn(t, late, "")
	if !got.Blind() || got.Check(t.Context()) != nil {
		t.Errorf("blind %v, check %v", got.Blind(), got.Check(t.Context()))
	}
	// With room again it stands for election like any other.
	if _, err := cli.Compact(t.Context(), headOf(t, cli), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := cli.Defragment(t.Context(), c.Endpoint(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := cli.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(40 * time.Second); ; <-time.After(100 * time.Millisecond) {
		if got, err := late.Turn(t.Context()); err == nil && !got.Blind() {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("still without an election")
		}
	}
}

func headOf(t *testing.T, cli *clientv3.Client) int64 {
	t.Helper()
	r, err := cli.Get(t.Context(), "head")
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

// TestNoQuorumIsNoRefusal: an election that can't be asked is worth another try.
func TestNoQuorumIsNoRefusal(t *testing.T) {
	t.Parallel()
	c := start(t, 1, 0)
	e := stand(t, c, options("defrag", 10*time.Second))
	turn(t, e, "")
	c.Kill(0)
	_, err := e.Turn(servertest.Context(t, 20*time.Second))
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v is of kind %s", err, fault.KindOf(err))
	}
	if err := c.Restart(servertest.Context(t, 30*time.Second), 0); err != nil {
		t.Fatal(err)
	}
	turn(t, e, "")
}
