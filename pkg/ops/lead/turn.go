package lead

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// settleMost is how long a tick waits for the candidacy of a process that has
// only just started.
const settleMost = 10 * time.Second

// Turn is the right to act once. It is used by one goroutine.
type Turn struct {
	e     *Elector
	term  *term // nil: taken without an election
	known counts
}

// Blind says that there is no election behind the turn.
func (t *Turn) Blind() bool { return t.term == nil }

// Turn takes the right to act, or says who has it: an error of kind Refused with
// CauseOther or CauseBusy. An election that can't be asked is an error of kind
// Unavailable, which is worth another try. Under NOSPACE, without a lease, it
// takes up to BlindMax and BlindGap.
func (e *Elector) Turn(ctx context.Context) (*Turn, error) {
	select {
	case <-e.settled:
	case <-time.After(settleMost):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	t, why := e.state()
	switch {
	case t != nil && t.alive():
		return e.elected(ctx, t)
	case t != nil:
		return nil, lost()
	case fault.CauseOf(why) == cluster.CauseNoSpace:
		return e.blind(ctx)
	case why == nil:
		return nil, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoAnswer, Op: "stand for election", Msg: "no answer yet"}
	}
	return nil, why
}

// elected asks the cluster who is first in the queue. That is a linearizable
// read: what this process believes by itself may be old.
func (e *Elector) elected(ctx context.Context, t *term) (*Turn, error) {
	kv, err := first(ctx, e.client, e.prefix())
	switch {
	case err != nil:
		return nil, err
	case kv == nil:
		return nil, lost()
	case string(kv.Key) != t.key:
		return nil, e.other(ctx, kv)
	}
	// The election writes our key's value once more before it says that we have won,
	// which would undo what Begin is going to write there. Whether it does is no
	// question of the right to run: the key is the first.
	select {
	case <-t.won:
	case <-t.ended:
		return nil, lost()
	case <-time.After(wonMost):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &Turn{e: e, term: t}, nil
}

// wonMost is how long to wait for the election to say what is known already.
const wonMost = 2 * time.Second

// first returns the key of the candidate that has waited longest, which is the
// holder; nil if there is none.
func first(ctx context.Context, client *cluster.Client, prefix string) (*mvccpb.KeyValue, error) {
	quorum, err := client.Quorum(ctx)
	if err != nil {
		return nil, err
	}
	r, err := quorum.Get(ctx, prefix+"/", clientv3.WithFirstCreate()...)
	if err != nil || len(r.Kvs) == 0 {
		return nil, err
	}
	return r.Kvs[0], nil
}

// other says who holds the election. Under NOSPACE neither the begin nor the end
// of its run can be written beside its name: then the members are asked.
func (e *Elector) other(ctx context.Context, kv *mvccpb.KeyValue) error {
	h := parseHolder(kv)
	msg := h.String()
	if view, err := e.client.View(ctx); err == nil && view.HasAlarm(cluster.AlarmNoSpace) {
		msg = fmt.Sprintf("another run by %s, which holds the election since %s; whether it is going now is not written down under NOSPACE", h.who(), stamp(h.Since))
		if _, at := e.inflight(ctx, view); at != "" {
			msg += ", but " + at
		}
	}
	return &fault.Error{Kind: fault.Refused, Cause: CauseOther, Op: "run", Msg: msg}
}

// parseHolder reads the value of a key; what is no value of kvd's is shown as an
// unknown host.
func parseHolder(kv *mvccpb.KeyValue) Holder {
	var h Holder
	if err := json.Unmarshal(kv.Value, &h); err != nil || h.Host == "" {
		h.Host = "an unknown host"
	}
	return h
}

// Begin and End write beside the holder's name that a run is going. They are for
// others to read: where they can't write (NOSPACE), nothing depends on it.
func (t *Turn) Begin(ctx context.Context) {
	now := time.Now().UTC()
	t.proclaim(ctx, &now)
}

// End is the opposite of Begin.
func (t *Turn) End(ctx context.Context) { t.proclaim(ctx, nil) }

func (t *Turn) proclaim(ctx context.Context, run *time.Time) {
	if t.term == nil {
		return
	}
	quorum, err := t.e.client.Quorum(ctx)
	if err != nil {
		return
	}
	// Only if it is still there: a lease that has ended has taken it along, and
	// the lease of a put would be refused.
	_, _ = quorum.Txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(t.term.key), ">", 0)},
		[]clientv3.Op{clientv3.OpPut(t.term.key, t.e.value(run), clientv3.WithLease(t.term.lease))}, nil)
}

// Check says whether the right is still there. It is asked before each step. A
// turn without an election looks again what every member reports: whoever else is
// at it shows as a defragmentation that is going, or as one that was completed
// and is not ours (see Did).
func (t *Turn) Check(ctx context.Context) error {
	if t.term == nil {
		return t.look(ctx)
	}
	if t.term.alive() {
		return nil
	}
	return &fault.Error{Kind: fault.Refused, Cause: CauseLost, Op: "run",
		Msg:  "the election was lost during the run: its lease was not kept alive in time",
		Hint: "another kvd may have taken over; no further step is made. The next tick asks again"}
}

// Did tells of a defragmentation of our own.
func (t *Turn) Did(member uint64) {
	if n, ok := t.known[member]; ok {
		t.known[member] = n + 1
	}
}

// Leads reports whether this process is the holder, as far as it knows. It asks
// nobody.
func (e *Elector) Leads() bool {
	t, _ := e.state()
	return t != nil && t.elected() && t.alive()
}

// Running tells whose run of an operation is going now, for a command that runs
// once. Where the election can't be read nobody's is.
//
// Under NOSPACE the answer may be old: the end of a run can't be written then.
func Running(ctx context.Context, client *cluster.Client, op string) (Holder, bool) {
	kv, err := first(ctx, client, Prefix+op)
	if err != nil || kv == nil {
		return Holder{}, false
	}
	h := parseHolder(kv)
	return h, h.RunAt != nil
}
