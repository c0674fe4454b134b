package ops_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

func (p *place) planCompact(t *testing.T, goal ops.CompactGoal, step int64) (*plan.Plan, error) {
	t.Helper()
	o := ops.DefaultCompactOptions()
	o.Goal, o.Step, o.Pause = goal, step, time.Millisecond
	return ops.PlanCompact(servertest.Context(t, time.Minute), p.KVD, p.view(t), o, progress.Discard)
}

func (p *place) runCompact(t *testing.T, goal ops.CompactGoal, step int64) plan.Report {
	t.Helper()
	pl, err := p.planCompact(t, goal, step)
	if err != nil {
		t.Fatal(err)
	}
	r, err := pl.Run(servertest.Context(t, time.Minute), nil, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (p *place) oldest(t *testing.T) int64 {
	t.Helper()
	rev, err := keyspace.OldestRevision(t.Context(), p.Client, p.head(t))
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// Case C14: a raft index taken for a revision.
func TestCompactRefusesARevisionThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for name, w := range worlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			for range 20 {
				l, err := p.Client.Grant(t.Context(), 60)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.Client.Revoke(t.Context(), l.ID); err != nil {
					t.Fatal(err)
				}
			}
			p.put(t, 10, 10, 10)
			head, raft := p.head(t), int64(0)
			for _, m := range p.view(t).Members {
				raft = max(raft, int64(m.Status.RaftIndex))
			}
			if raft <= head+20 {
				t.Fatalf("raft index %d, head %d: the case was not built", raft, head)
			}
			_, err := p.planCompact(t, ops.CompactGoal{To: raft}, 0)
			if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "looks like a raft index") ||
				!strings.Contains(fault.HintOf(err), fmt.Sprintf("did you mean %d?", head)) {
				t.Errorf("to the raft index: %v (hint %q)", err, fault.HintOf(err))
			}
			_, err = p.planCompact(t, ops.CompactGoal{To: raft + 1_000_000}, 0)
			if fault.KindOf(err) != fault.Usage || strings.Contains(err.Error(), "looks like") {
				t.Errorf("far above both: %v", err)
			}
			if got := p.oldest(t); got != 1 {
				t.Errorf("oldest revision %d: something was sent", got)
			}
		})
	}
}

// What is compacted is gone, nothing else is, and a second run finds nothing.
func TestCompactIsExactAndIdempotent(t *testing.T) { compactIsExactAndIdempotent(t, plain()) }
func TestCompactIsExactAndIdempotent_more(t *testing.T) {
	compactIsExactAndIdempotent(t, otherWorlds())
}

func compactIsExactAndIdempotent(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			p.put(t, 500, 7, 200)
			head := p.head(t)

			r := p.runCompact(t, ops.CompactGoal{Keep: 123}, 100)
			want := head - 123
			if got := p.oldest(t); got != want {
				t.Errorf("oldest revision %d, want %d", got, want)
			}
			if steps := len(r.Steps); steps != int((want-1+99)/100) {
				t.Errorf("%d steps of 100 revisions to %d", steps, want)
			}
			_, err := p.Client.Get(t.Context(), p.key(0), clientv3.WithRev(want-1))
			if !errors.Is(err, rpctypes.ErrCompacted) {
				t.Errorf("a read below: %v", err)
			}
			if _, err := p.Client.Get(t.Context(), p.key(0), clientv3.WithRev(want)); err != nil {
				t.Errorf("a read at the revision: %v", err)
			}
			r = p.runCompact(t, ops.CompactGoal{To: want}, 0)
			if r.Outcome != plan.OutcomeNothing || r.Steps[0].State != plan.Skipped {
				t.Errorf("again: outcome %s, steps %+v", r.Outcome, r.Steps)
			}
		})
	}
}

// Case C18: the margin keeps paged lists and reconnecting watches alive; at the
// head they are cut off, while a watch that is open goes on.
func TestCompactLeavesAMargin(t *testing.T)      { compactLeavesAMargin(t, plain()) }
func TestCompactLeavesAMargin_more(t *testing.T) { compactLeavesAMargin(t, otherWorlds()) }

func compactLeavesAMargin(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			p.put(t, 2500, 600, 50)
			head := p.head(t)
			pinned, from := head-400, head-900
			open := p.Client.Watch(clientv3.WithRequireLeader(t.Context()), "\x00", clientv3.WithFromKey(), clientv3.WithRev(from))

			p.runCompact(t, ops.CompactGoal{}, 0)
			if got := p.oldest(t); got > from || got != head-1000 {
				t.Errorf("oldest revision %d, want the head %d less 1000", got, head)
			}
			if err := p.page(t, pinned); err != nil {
				t.Errorf("a list pinned at %d: %v", pinned, err)
			}
			if rev := p.compactedAtWatch(t, from); rev != 0 {
				t.Errorf("a watch from %d was cut off at %d", from, rev)
			}

			p.runCompact(t, ops.CompactGoal{Head: true}, 0)
			if err := p.page(t, pinned); !errors.Is(err, rpctypes.ErrCompacted) {
				t.Errorf("a list pinned at %d after a compaction to the head: %v", pinned, err)
			}
			if rev := p.compactedAtWatch(t, from); rev != head {
				t.Errorf("a watch that reconnects from %d: cut off at %d, want %d", from, rev, head)
			}
			if n := drain(t, open, head); int64(n) != head-from+1 {
				t.Errorf("the open watch got %d events, want %d", n, head-from+1)
			}
		})
	}
}

// page is the second page of a list pinned at a revision.
func (p *place) page(t *testing.T, rev int64) error {
	t.Helper()
	_, err := p.Client.Get(t.Context(), p.key(1), clientv3.WithFromKey(), clientv3.WithRev(rev), clientv3.WithLimit(50))
	return err
}

// compactedAtWatch opens a watch from a revision and returns the compaction it
// is cut off at, 0 if it gets events.
func (p *place) compactedAtWatch(t *testing.T, rev int64) int64 {
	t.Helper()
	ctx := servertest.Context(t, 10*time.Second)
	r, ok := <-p.Client.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(rev))
	if !ok {
		t.Fatal("the watch ended without a word")
	}
	return r.CompactRevision
}

func drain(t *testing.T, w clientv3.WatchChan, last int64) int {
	t.Helper()
	n := 0
	for {
		select {
		case r, ok := <-w:
			if !ok || r.Err() != nil {
				t.Fatalf("the open watch ended after %d events: %v", n, r.Err())
			}
			n += len(r.Events)
			if len(r.Events) > 0 && r.Events[len(r.Events)-1].Kv.ModRevision >= last {
				return n
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the open watch is silent after %d events", n)
		}
	}
}

// Case C19: compacting at a revision that deletes and puts a key at once loses
// the fresh value, so kvd does not.
func TestCompactAvoidsARevisionThatRecreatesKeys(t *testing.T) {
	t.Parallel()
	for name, w := range worlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			a, b := p.key(1), p.key(2)
			p.put(t, 3, 3, 10) // three keys
			deadly := p.recreate(t, a, b)

			pl, err := p.planCompact(t, ops.CompactGoal{To: deadly}, 0)
			if err != nil {
				t.Fatal(err)
			}
			r, err := pl.Run(servertest.Context(t, time.Minute), nil, progress.Discard)
			if fault.CauseOf(err) != "recreated_key" || fault.KindOf(err) != fault.Refused || r.Outcome != plan.OutcomeFailed {
				t.Errorf("to the deadly revision: %v, outcome %s", err, r.Outcome)
			}
			if got := p.oldest(t); got != 1 {
				t.Fatalf("oldest revision %d: it was sent", got)
			}
			// Left to kvd, the target moves off it.
			p.runCompact(t, ops.CompactGoal{Head: true}, 0)
			if got := p.oldest(t); got != deadly-1 {
				t.Errorf("oldest revision %d, want %d", got, deadly-1)
			}
			for _, key := range []string{a, b} {
				if g, err := p.Client.Get(t.Context(), key); err != nil || len(g.Kvs) != 1 || string(g.Kvs[0].Value) != "fresh" {
					t.Errorf("key %q: %v, %v: the fresh value is lost", key, g, err)
				}
			}
		})
	}
}

// A step that kvd chose itself and that ends at such a revision is left to the next,
// which goes past it: else the same command would be refused there for ever.
func TestCompactInStepsGoesPastARevisionThatRecreatesKeys(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	p.put(t, 30, 3, 10)
	deadly := p.recreate(t, p.key(1))
	p.put(t, 5, 2, 10) // keys 0 and 1
	if _, err := p.Client.Put(t.Context(), p.key(1), "fresh"); err != nil {
		t.Fatal(err)
	}
	head := p.head(t)
	r := p.runCompact(t, ops.CompactGoal{Head: true}, deadly-p.oldest(t))
	if len(r.Steps) != 2 || r.Steps[0].State != plan.Skipped || r.Steps[1].State != plan.Done || !strings.Contains(r.Steps[0].Reason, "goes past it") {
		t.Errorf("steps %+v", r.Steps)
	}
	if got := p.oldest(t); got != head {
		t.Errorf("oldest revision %d, want %d", got, head)
	}
}

// A compaction that was accepted and is not done everywhere when its time is up is
// no defect of kvd, and is told which of the timeouts it was.
func TestCompactTellsWhichTimeWasUp(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	p.put(t, 100, 20, 100)
	o := ops.DefaultCompactOptions()
	o.Goal, o.Timeout = ops.CompactGoal{Keep: 10}, time.Second // sizes take longer than that to settle
	pl, err := ops.PlanCompact(servertest.Context(t, time.Minute), p.KVD, p.view(t), o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pl.Run(servertest.Context(t, time.Minute), nil, progress.Discard)
	if fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != cluster.CauseDeadline || !strings.Contains(err.Error(), "within 1s") {
		t.Errorf("kind %q, cause %q: %v", fault.KindOf(err), fault.CauseOf(err), err)
	}
	if p.oldest(t) == 1 {
		t.Error("it was not even accepted")
	}
}

// recreate deletes everything and puts two keys in one transaction, in the form
// that etcd's own check lets through, and returns its revision.
func (p *place) recreate(t *testing.T, keys ...string) int64 {
	t.Helper()
	then := []clientv3.Op{clientv3.OpDelete(keys[0], clientv3.WithFromKey())}
	for _, k := range keys {
		then = append(then, clientv3.OpPut(k, "fresh"))
	}
	r, err := p.Client.Txn(t.Context()).Then(then...).Commit()
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

// On a Kubernetes cluster the proposal is what kube-apiserver's compactor does
// next; under NOSPACE its marker is stale, and the margin is 1000 revisions.
func TestCompactKnowsKubernetes(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 16 * mib, keyFmt: "/registry/leases/kube-node-lease/n%d"}.build(t)
	p.put(t, 1500, 20, 100)
	marker := p.head(t) - 1200
	if _, err := p.Client.Put(t.Context(), "compact_rev_key", fmt.Sprint(marker)); err != nil {
		t.Fatal(err)
	}
	pl, err := p.planCompact(t, ops.CompactGoal{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("compact to revision %d", marker); len(pl.Steps) != 1 || pl.Steps[0].Action != want {
		t.Errorf("plan %+v, want %q", pl.Describe().Steps, want)
	}
	p.fill(t, 20, 32<<10)
	pl, err = p.planCompact(t, ops.CompactGoal{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("compact to revision %d", p.head(t)-1000); pl.Steps[0].Action != want {
		t.Errorf("under NOSPACE: %q, want %q", pl.Steps[0].Action, want)
	}
}

// Without a quorum nothing is sent, and the reason is said.
func TestCompactWithoutQuorum(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	p.put(t, 50, 5, 10)
	p.Kill(1)
	p.Kill(2)
	began := time.Now()
	_, err := p.planCompact(t, ops.CompactGoal{Head: true}, 0)
	if fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != "no_quorum" || !strings.Contains(err.Error(), "1 of 3 voters") {
		t.Errorf("got %v, want unavailable: 1 of 3 voters", err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it took %s to say so", took)
	}
}
