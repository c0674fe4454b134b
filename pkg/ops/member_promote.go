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

// PromoteOptions say which learner to promote, and when.
type PromoteOptions struct {
	Member  string        // name or hexadecimal ID
	MaxLag  uint64        // committed entries that it may have to apply
	Timeout time.Duration // for it to catch up; 0: no limit
}

// DefaultPromoteOptions returns what `kvd member promote` does when told nothing.
func DefaultPromoteOptions() PromoteOptions {
	j := DefaultJoinOptions()
	return PromoteOptions{MaxLag: j.MaxLag, Timeout: j.Timeout}
}

// PlanMemberPromote plans to make a voter of a learner: wait until it has caught
// up, promote it, verify. A voter has nothing to be promoted to: its steps are
// skipped. Errors are *fault.Error: Usage for a member that is not there, Refused
// where the quorum would be at risk, Unavailable without a quorum.
func PlanMemberPromote(client *cluster.Client, view cluster.View, o PromoteOptions, sink progress.Sink) (*plan.Plan, error) {
	c := &membership{client: client, sink: sink, op: "member promote"}
	if err := view.VotersErr(c.op); err != nil {
		return nil, err
	}
	m, err := findFor(c, view, o.Member)
	if err != nil {
		return nil, err
	}
	n := &newcomer{c: c, o: JoinOptions{MaxLag: o.MaxLag, Timeout: o.Timeout}, name: m.Name, peerURLs: m.PeerURLs, id: m.ID}
	p := &plan.Plan{Op: c.op}
	if !m.Learner {
		p.Steps = append(p.Steps, plan.Step{StepResult: plan.StepResult{Subject: m.Label(), Action: "promote to voter", State: plan.Skipped, Reason: "is a voter already"}})
		return p, nil
	}
	if m.Name == "" {
		return nil, c.refused(cluster.CauseNotStarted, m.Label(), "was added and never started, so that there is nothing to promote yet", goOnWith(m))
	}
	if err := c.sound(view, 0); err != nil {
		return nil, err
	}
	b := balanceOf(view)
	p.Notes = append(p.Notes, afterwards(b, b.plus(true))...)
	p.Steps = append(p.Steps, n.caughtUpStep(), n.promoteStep(m), n.verifyStep(true, 0))
	p.Steps[0].Guard, p.Steps[0].AfterEarlier = n.promotable, false
	return p, nil
}

// findFor finds a member by what the user typed.
func findFor(c *membership, view cluster.View, name string) (cluster.Member, error) {
	m, err := view.FindMember(name)
	return m, c.onSubject(name, err)
}

// promotable refuses a promotion after which too few voters would be alive.
func (n *newcomer) promotable(ctx context.Context) error {
	view, err := n.c.View(ctx)
	if err != nil {
		return err
	}
	if err := n.c.sound(view, 0); err != nil {
		return err
	}
	if err := n.c.notCorrupt(view, n.except); err != nil {
		return err
	}
	return n.c.keepsQuorum(n.label(), "one more voter", balanceOf(view).plus(true), "bring the missing voters back, or replace them, first")
}

// caughtUpStep waits until the learner has applied what is committed, but for a
// few entries: on a busy cluster there are always some.
func (n *newcomer) caughtUpStep() plan.Step {
	return plan.Step{
		StepResult:   plan.StepResult{Subject: n.label(), Action: "wait until it has caught up", Reason: fmt.Sprintf("at most %d entries to apply", n.o.MaxLag)},
		AfterEarlier: true,
		Do: func(ctx context.Context, r *plan.StepResult) error {
			ctx, cancel := plan.Waiting(ctx)
			defer cancel()
			for limit := n.limit(); ; {
				view, err := n.c.View(ctx)
				if err != nil && ctx.Err() != nil {
					return ctx.Err()
				}
				m, ok := byID(view.Members, n.id)
				note := unheardOf
				switch {
				case err != nil:
					note = fault.Why(err)
				case ok:
					note = n.lagOf(view, m)
				default:
					if err := n.removed(ctx); err != nil {
						return err
					}
				}
				if note == "" {
					r.Reason = fmt.Sprintf("applied %d of %d entries, term %d", m.Status.AppliedIndex, highestCommit(view), m.Status.RaftTerm)
					return nil
				}
				if n.over(limit) {
					return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseLearnerNotReady, Op: n.c.op, Subject: n.label(),
						Msg: fmt.Sprintf("has not caught up within %s: %s", n.o.Timeout, note), Hint: standing(m) + "; see its log, and run this again"}
				}
				if err := wait.For(ctx, memberPoll); err != nil {
					return err
				}
			}
		},
	}
}

// lagOf says what the learner still lacks, or nothing, and reports progress. It
// wants what etcd wants for a promotion, nine tenths of the leader's log, and more:
// nine tenths of a long log may be minutes behind.
func (n *newcomer) lagOf(view cluster.View, m cluster.Member) string {
	if m.Status == nil {
		why := "does not answer its status from here"
		if m.Err != nil {
			why += ": " + fault.Why(m.Err)
		}
		n.c.tell(n.label(), "waiting until it has caught up", why)
		return why
	}
	head, applied := highestCommit(view), m.Status.AppliedIndex
	if view.Lag(m) <= n.o.MaxLag && float64(applied) >= 0.9*float64(head) {
		return ""
	}
	n.c.sink.Event(progress.Event{Op: n.c.op, Subject: n.label(), Phase: "catching up", Done: int64(applied), Total: int64(head), Unit: "entries"})
	return fmt.Sprintf("%d of %d entries applied", applied, head)
}

// promoteStep makes it a voter.
func (n *newcomer) promoteStep(m cluster.Member) plan.Step {
	s := plan.Step{StepResult: plan.StepResult{Subject: n.label(), Action: "promote to voter"}, Guard: n.promotable, AfterEarlier: true}
	if m.ID != 0 && !m.Learner {
		s.State, s.Reason = plan.Skipped, "is a voter already"
	}
	s.Do = func(ctx context.Context, r *plan.StepResult) error {
		isVoter := func(list []cluster.Member) bool {
			m, ok := byID(list, n.id)
			return ok && !m.Learner
		}
		return n.c.change(ctx, n.label(), n.gone, func(mc *cluster.MemberClient) error {
			_, err := mc.PromoteMember(ctx, n.id)
			return err
		}, isVoter)
	}
	return s
}
