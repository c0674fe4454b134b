package ops

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

const (
	// settleLook is how often a settling cluster is looked at.
	settleLook = 250 * time.Millisecond
	// settleLimit is how long a disturbed member may take to catch up, beyond the pause.
	settleLimit = 5 * time.Minute
	// caughtUp is how many entries behind still counts as caught up: members are
	// asked one after another, so a busy cluster always shows some.
	caughtUp = 100
)

// gate is one condition for touching a member: its name, what was seen, and why
// that refuses, if it does.
type gate struct {
	name, saw string
	cause     string // of the refusal
	refuse    string // empty: passed
	hint      string
}

// guard lets the cluster settle after the last step, then takes a fresh look and
// refuses to touch the member unless every gate is passed.
func (d *defragmentation) guard(ctx context.Context, m cluster.Member) (cluster.View, error) {
	if err := d.settle(ctx); err != nil {
		return cluster.View{}, err
	}
	view, err := d.c.View(ctx)
	if err != nil {
		return view, err
	}
	return view, d.mayTouch(ctx, view, m)
}

// mayTouch refuses unless every gate is passed and nobody else is at work.
func (d *defragmentation) mayTouch(ctx context.Context, view cluster.View, m cluster.Member) error {
	if err := refusal(m, gates(view, m, d.opts.MaxLag)); err != nil {
		return err
	}
	return d.undisturbed(ctx, view, m)
}

// lookAgain asks once more what guard has asked, of a member that the --before-member command was
// run for meanwhile.
func (d *defragmentation) lookAgain(ctx context.Context, m cluster.Member) error {
	view, err := d.c.View(ctx)
	if err == nil {
		if _, ok := view.MemberByID(m.ID); !ok {
			delete(d.todo, m.ID)
			return plan.Skip(removedSince)
		}
		err = d.mayTouch(ctx, view, m)
	}
	if err == nil {
		err = d.handOver(ctx, view, m)
	}
	if err == nil {
		return nil
	}
	return &fault.Error{Kind: fault.KindOf(err), Cause: fault.CauseOf(err), Op: "defrag", Subject: m.Label(), Err: err,
		Msg:  "not defragmented, for what came up while its --before-member command ran",
		Hint: "undo what the command did; " + fault.HintOf(err)}
}

// refusal makes an error of the first gate that is not passed.
func refusal(m cluster.Member, all []gate) error {
	for _, g := range all {
		if g.refuse != "" {
			return &fault.Error{Kind: fault.Refused, Cause: g.cause, Op: "defrag", Subject: m.Label(),
				Msg: fmt.Sprintf("gate %q: %s", g.name, g.refuse), Hint: g.hint}
		}
	}
	return nil
}

// gates looks at everything that must hold before a member is touched. NOSPACE
// is no gate: it is the reason to defragment.
func gates(view cluster.View, m cluster.Member, maxLag uint64) []gate {
	return []gate{corruptGate(view), votersGate(view), leaderGate(view), lagGate(view, maxLag), quorumGate(view, m)}
}

func corruptGate(view cluster.View) gate {
	g := gate{name: "no CORRUPT alarm", cause: cluster.CauseCorrupt, saw: "none raised",
		hint: "members hold different data: find the healthy one, replace the other; defragmenting rewrites a file that may be the evidence"}
	for _, a := range view.Alarms {
		if a.Type == cluster.AlarmCorrupt {
			g.refuse = "CORRUPT is raised by " + alarmOwner(a)
		}
	}
	return g
}

func votersGate(view cluster.View) gate {
	voters := view.Voters()
	g := gate{name: "every voter answers", cause: "voter_missing", hint: "bring it back first (`kvd status` says what it lacks), or, if it is lost for good, take it out with `kvd member remove`: with it away, a member that defragments may cost the quorum"}
	answered := 0
	for _, v := range voters {
		if v.Status != nil {
			answered++
			continue
		}
		if g.refuse == "" {
			g.refuse = fmt.Sprintf("%s does not answer its status", v.Label())
			if v.Err != nil {
				g.refuse += ": " + v.Err.Error()
			}
			if notReached(view, v) {
				g.hint = reachHelp(v)
			}
			if fault.CauseOf(v.Err) == cluster.CauseNotStarted { // which there is no bringing back
				g.hint = fault.HintOf(v.Err)
			}
		}
	}
	g.saw = fmt.Sprintf("%d of %d", answered, len(voters))
	return g
}

func leaderGate(view cluster.View) gate {
	g := gate{name: "all agree on a leader", cause: cluster.CauseNoLeader, hint: "wait for the election, or find out what keeps it from ending"}
	if view.Leader == 0 {
		g.refuse = "no member knows a leader"
		return g
	}
	g.saw = cluster.FormatID(view.Leader)
	if m, ok := view.LeaderMember(); ok {
		g.saw = m.Label()
	}
	for _, v := range view.Voters() {
		if v.Status != nil && v.Status.Leader != view.Leader {
			g.refuse = fmt.Sprintf("%s takes %s for the leader, others %s", v.Label(), cluster.FormatID(v.Status.Leader), g.saw)
		}
	}
	return g
}

func lagGate(view cluster.View, maxLag uint64) gate {
	g := gate{name: "raft lag", cause: "lag", hint: "wait until it has caught up, or raise --max-lag"}
	for _, v := range view.Voters() {
		lag := view.Lag(v)
		if g.saw == "" || lag > maxLag {
			g.saw = fmt.Sprintf("%d at %s", lag, v.Label())
		}
		if lag > maxLag {
			g.refuse = fmt.Sprintf("raft lag of %s %d > %d", v.Label(), lag, maxLag)
		}
	}
	return g
}

// quorumGate counts without the member. One and two voters can't be defragmented
// any other way; the plan says what that means.
func quorumGate(view cluster.View, m cluster.Member) gate {
	g := gate{name: "quorum without the member", cause: "quorum", hint: "bring the other voters back first"}
	others := 0
	for _, v := range view.Voters() {
		if v.ID != m.ID && v.Status != nil {
			others++
		}
	}
	g.saw = fmt.Sprintf("%d others, quorum %d", others, view.Quorum())
	if len(view.Voters()) > 2 && others < view.Quorum() {
		g.refuse = g.saw
	}
	return g
}

// settle waits until the member that the last step disturbed has caught up and
// the pause has passed. After the first step, or after one that disturbed
// nothing, there is nothing to wait for.
func (d *defragmentation) settle(ctx context.Context) error {
	if d.last.IsZero() {
		return nil
	}
	if err := d.catchUp(ctx, d.opts.Settle); err != nil {
		return err
	}
	d.last = time.Time{}
	return nil
}

// catchUp waits until the disturbed member has applied what is committed, and
// until the pause since it was disturbed has passed. A member that does not
// answer at all ends the wait: the gates say what is wrong with it.
func (d *defragmentation) catchUp(ctx context.Context, pause time.Duration) error {
	for limit := d.last.Add(pause + settleLimit); ; {
		view, err := d.c.View(ctx)
		if err != nil {
			return err
		}
		m, ok := view.MemberByID(d.dist)
		if !ok || m.Status == nil {
			return nil
		}
		lag, left := view.Lag(m), pause-time.Since(d.last)
		if lag <= caughtUp && left <= 0 {
			return nil
		}
		if time.Now().After(limit) {
			return &fault.Error{Kind: fault.Unavailable, Cause: "lag", Op: "defrag", Subject: m.Label(),
				Msg:  fmt.Sprintf("has still %d entries to apply %s after it was done", lag, pause+settleLimit),
				Hint: "look at its disk and its log before going on with the others"}
		}
		d.sink.Event(progress.Event{Op: "defrag", Subject: m.Label(), Phase: "settling", Note: fmt.Sprintf("raft lag %d, %s left", lag, max(left, 0).Round(time.Second))})
		if err := wait.For(ctx, min(max(left, settleLook), time.Second)); err != nil {
			return err
		}
	}
}
