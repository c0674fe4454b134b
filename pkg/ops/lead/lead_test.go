package lead_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/lead"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

func start(t *testing.T, members int, quota int64) *servertest.Cluster {
	t.Helper()
	return servertest.Start(t, servertest.Options{Options: local.Options{Members: members, QuotaBytes: quota, Args: []string{"--unsafe-no-fsync"}}})
}

func connect(t *testing.T, c *servertest.Cluster) *cluster.Client {
	t.Helper()
	cl, err := cluster.Connect(cluster.Config{Endpoints: c.Endpoints(), Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

func options(op string, ttl time.Duration) lead.Options {
	o := lead.DefaultOptions(op)
	o.TTL, o.BlindMax, o.BlindGap = ttl, 200*time.Millisecond, 300*time.Millisecond
	return o
}

func stand(t *testing.T, c *servertest.Cluster, o lead.Options) *lead.Elector {
	t.Helper()
	e := lead.Stand(connect(t, c), o)
	t.Cleanup(func() { e.Close(context.WithoutCancel(t.Context())) })
	return e
}

// turn asks until the answer is the wanted one: "" for a turn.
func turn(t *testing.T, e *lead.Elector, cause string) (*lead.Turn, error) {
	t.Helper()
	ctx := servertest.Context(t, 40*time.Second)
	for {
		got, err := e.Turn(ctx)
		if fault.CauseOf(err) == cause && (err == nil) == (cause == "") {
			return got, err
		}
		if ctx.Err() != nil {
			t.Fatalf("want %q, got %v", cause, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// TestOneOfMany: of several that stand, one gets the turn and the others are
// told who has it; each operation has an election of its own.
func TestOneOfMany(t *testing.T) {
	t.Parallel()
	c := start(t, 3, 0)
	for _, n := range []int{2, 5} {
		op := map[int]string{2: "defrag", 5: "compact"}[n]
		var electors []*lead.Elector
		for range n {
			electors = append(electors, stand(t, c, options(op, 5*time.Second)))
		}
		var mu sync.Mutex
		got, told := []*lead.Turn{}, 0
		var wg sync.WaitGroup
		for _, e := range electors {
			wg.Go(func() {
				tn, err := e.Turn(t.Context())
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					got = append(got, tn)
				case fault.CauseOf(err) == lead.CauseOther && fault.KindOf(err) == fault.Refused && strings.Contains(err.Error(), "another run by "):
					told++
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(got) != 1 || told != n-1 {
			t.Fatalf("%d of %d got the turn, %d were told who has it", len(got), n, told)
		}
		if got[0].Blind() || got[0].Check(t.Context()) != nil {
			t.Errorf("blind %v, check %v", got[0].Blind(), got[0].Check(t.Context()))
		}
	}
}

// TestTheNextTakesOver: at once where the holder gives it up, within the TTL
// where its lease ends.
func TestTheNextTakesOver(t *testing.T) {
	t.Parallel()
	c := start(t, 1, 0)
	cli := c.Client(t)
	first := stand(t, c, options("defrag", 2*time.Second))
	held, _ := turn(t, first, "")
	held.Begin(t.Context())
	second := stand(t, c, options("defrag", 2*time.Second))
	_, err := turn(t, second, lead.CauseOther)
	if msg := err.Error(); !strings.Contains(msg, "another run by ") || strings.Contains(msg, "between two runs") {
		t.Errorf("a run that is going is told as %q", msg)
	}
	held.End(t.Context())
	if _, err := turn(t, second, lead.CauseOther); !strings.Contains(err.Error(), "between two runs") {
		t.Errorf("a run that is over is told as %q", err)
	}
	if !first.Leads() || second.Leads() {
		t.Errorf("leads: %v, %v", first.Leads(), second.Leads())
	}

	// The holder's lease is taken away under it, as a stall of its host would.
	kvs, err := cli.Get(t.Context(), lead.Prefix+"defrag/", clientv3.WithFirstCreate()...)
	if err != nil || len(kvs.Kvs) != 1 {
		t.Fatal(kvs, err)
	}
	if _, err := cli.Revoke(t.Context(), clientv3.LeaseID(kvs.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	taken, _ := turn(t, second, "")
	for limit := time.Now().Add(20 * time.Second); held.Check(t.Context()) == nil; <-time.After(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the first does not notice that it has lost the election")
		}
	}
	if err := held.Check(t.Context()); fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != lead.CauseLost {
		t.Errorf("lost: %v", err)
	}
	// It stands again, behind the second, and comes up when that leaves.
	turn(t, first, lead.CauseOther)
	if err := taken.Check(t.Context()); err != nil {
		t.Error(err)
	}
	second.Close(t.Context())
	turn(t, first, "")
}

// TestAnOutageLongerThanTheTTL: no lease ends while a cluster is down, so the
// holder is the holder still, and does not take its own key for another's.
func TestAnOutageLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	c := start(t, 1, 0)
	o := options("defrag", 2*time.Second)
	e := stand(t, c, o)
	held, _ := turn(t, e, "")
	standby := stand(t, c, o)
	turn(t, standby, lead.CauseOther)
	lease := func() int64 {
		kvs, err := c.Client(t).Get(t.Context(), lead.Prefix+"defrag/", clientv3.WithFirstCreate()...)
		if err != nil || len(kvs.Kvs) != 1 {
			t.Fatal(kvs, err)
		}
		return kvs.Kvs[0].Lease
	}
	before := lease()
	c.Kill(0)
	for ctx := servertest.Context(t, 40*time.Second); fault.CauseOf(held.Check(ctx)) != lead.CauseLost; <-time.After(50 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("it goes on without a lease")
		}
	}
	if _, err := e.Turn(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("while the cluster is down: %v", err)
	}
	if err := c.StartMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for ctx := servertest.Context(t, 40*time.Second); ; <-time.After(20 * time.Millisecond) {
		_, err := e.Turn(ctx)
		if err == nil {
			break
		}
		if fault.KindOf(err) != fault.Unavailable || ctx.Err() != nil {
			t.Fatalf("after the outage: %v", err)
		}
	}
	if after := lease(); after != before {
		t.Errorf("held by lease %x, before the outage by %x", after, before)
	}
	turn(t, standby, lead.CauseOther)
	e.Close(t.Context())
	turn(t, standby, "")
}
