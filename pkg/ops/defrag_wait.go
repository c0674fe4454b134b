package ops

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// causeDefragUnknown marks a defragmentation of which nobody knows whether it
// still goes on. No other member may be touched then.
const causeDefragUnknown = "defrag_outcome_unknown"

// causeDefragNotDone marks one that was asked for, is over, and did nothing.
const causeDefragNotDone = "defrag_not_done"

const (
	followPoll   = 500 * time.Millisecond
	followStart  = 3 * time.Second  // how long a request may take to show in the member's metrics
	followSilent = 15 * time.Second // how long a member may answer nothing at all
)

// follower waits for the end of a defragmentation that the member was asked for
// and has not answered. etcd gives such a request no context: it goes on when
// the client is gone.
type follower struct {
	d      *defragmentation
	m      cluster.Member
	before *metrics.Sample // taken before the request; nil if the metrics can't be read
	began  time.Time
	asked  error // what became of the request

	seen      bool      // seen in flight
	silence   string    // what the member does not answer
	lastWord  time.Time // when the member last answered anything
	answering time.Time // since when it has answered each look; zero: it did not the last one
}

// wait returns how long the defragmentation took by the member's own clock, 0 if
// it does not say.
func (f *follower) wait(ctx context.Context) (time.Duration, error) {
	f.lastWord = f.began
	for {
		took, ended, err := f.look(ctx)
		if ended {
			return took, err
		}
		if ctx.Err() != nil {
			return 0, &fault.Error{Kind: fault.Interrupted, Op: "defrag", Subject: f.m.Label(),
				Msg: "interrupted; the member goes on until it is done, which can't be stopped"}
		}
		if time.Since(f.lastWord) > followSilent {
			return 0, f.unknown(f.silence, err)
		}
		f.d.sink.Event(progress.Event{Op: "defrag", Subject: f.m.Label(), Phase: "waiting for the server",
			Done: int64(time.Since(f.began).Seconds()), Unit: "seconds"})
		if werr := wait.For(ctx, followPoll); werr != nil {
			continue
		}
	}
}

// look asks once. What answers while a member defragments is its /metrics; where
// those can't be read, its status is silent until the end.
func (f *follower) look(ctx context.Context) (took time.Duration, ended bool, err error) {
	s, err := f.d.c.Metrics(ctx, f.m)
	if err != nil {
		f.silence = "answers neither its metrics nor its status"
		took, ended, serr := f.lookAtStatus(ctx)
		if !ended && serr != nil {
			serr = fmt.Errorf("%w; %w", err, serr)
		}
		return took, ended, serr
	}
	running, completed := inflight(s)
	switch {
	case f.before != nil && s.Restarted(f.before):
		return 0, true, f.not("the member restarted while it was defragmented; its file is either the old or the new one, whole in both cases")
	case running:
		f.seen, f.lastWord, f.answering = true, time.Now(), time.Time{}
		return 0, false, nil
	case f.before == nil: // how many it had completed before is not known, and only its size tells
		f.silence = "answers its metrics and not its status"
		return f.lookAtStatus(ctx)
	}
	f.answered()
	h, _ := metrics.Between(f.before, s).Histogram(metrics.DefragDuration, nil)
	if _, was := inflight(f.before); completed > was {
		return time.Duration(h.Sum * float64(time.Second)), true, nil
	}
	if f.seen {
		return 0, true, f.not("the member began and did not complete it (see its log)")
	}
	if f.settled() {
		return 0, true, f.not("the member never began it")
	}
	return 0, false, nil
}

// lookAtStatus follows without metrics, or where none were had from before the
// request: the status answers when it is over, and the size tells how.
func (f *follower) lookAtStatus(ctx context.Context) (took time.Duration, ended bool, err error) {
	s, err := f.d.c.Status(ctx, f.m.ID)
	switch {
	case err == nil && s.DBSize < f.m.Status.DBSize:
		return 0, true, nil
	case err == nil:
		if f.answered(); f.settled() {
			return 0, true, f.not("the member serves, and its file is not smaller than before")
		}
		return 0, false, nil
	}
	f.answering = time.Time{}
	if fault.CauseOf(err) == cluster.CauseDeadline {
		// The port is open and the request hangs: what a defragmenting member
		// does. There is no limit to how long that may take.
		f.lastWord = time.Now()
		return 0, false, nil
	}
	return 0, false, err
}

// answered notes that the member has answered a look.
func (f *follower) answered() {
	f.lastWord = time.Now()
	if f.answering.IsZero() {
		f.answering = f.lastWord
	}
}

// settled reports that the member has answered for so long that the request would
// show by now. One that hung has the request still before it when it goes on.
func (f *follower) settled() bool { return time.Since(f.answering) > followStart }

// not is the error of a defragmentation that is over and did not succeed.
func (f *follower) not(why string) error {
	return &fault.Error{Kind: fault.Unavailable, Cause: causeDefragNotDone, Op: "defrag", Subject: f.m.Label(), Msg: why,
		Err: &fault.Error{Kind: fault.Unavailable, Cause: fault.CauseOf(f.asked), Msg: "what was asked of it was not answered", Err: f.asked}}
}

// unknown is the error of a defragmentation of which nothing can be learned.
func (f *follower) unknown(why string, err error) error {
	return &fault.Error{Kind: fault.Unavailable, Cause: causeDefragUnknown, Op: "defrag", Subject: f.m.Label(), Err: err,
		Msg:  why + ", so whether it still defragments is not known; no other member is touched",
		Hint: "look at the member itself: where it is down, start it, for its file is the old or the new one, whole in both cases; go on when etcd_disk_defrag_inflight in its /metrics is 0"}
}
