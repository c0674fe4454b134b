package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// ReplaceOptions say which member to replace, and by what.
type ReplaceOptions struct {
	JoinOptions
	Member   string   // the old one: name or hexadecimal ID
	PeerURLs []string // of the new one; empty: those of the old one
	NewName  string   // empty: the old one's
	StateDir string   // folder for the record with which an interrupted replacement is finished
}

// DefaultReplaceOptions returns what `kvd member replace` does when told nothing.
func DefaultReplaceOptions() ReplaceOptions { return ReplaceOptions{JoinOptions: DefaultJoinOptions()} }

// othersLag is how many entries the other voters may have to apply.
const othersLag = 5000

// replacement is one being planned or carried out.
type replacement struct {
	c        *membership
	o        ReplaceOptions
	journal  replaceJournal
	record   *replaceRecord
	old      cluster.Member
	oldThere bool
	n        *newcomer
	newThere bool
	addFirst bool
}

// PlanMemberReplace plans to put a new member, with an empty data dir, in the place
// of an old one. Where the old one is alive and the new one has a peer URL of its
// own, the new one comes in before the old one goes; else the old one goes first.
//
// What was done is seen in the cluster, and the rest remembered in a file, so that
// a run that was interrupted anywhere is finished by the next with the same
// options. The plan's Detail is a *MemberStart. Errors are *fault.Error: Usage for a
// wrong call, Refused by a guard, Unavailable without a quorum.
func PlanMemberReplace(client *cluster.Client, view cluster.View, o ReplaceOptions, sink progress.Sink) (*plan.Plan, error) {
	c := &membership{client: client, sink: sink, op: "member replace"}
	if err := view.VotersErr(c.op); err != nil {
		return nil, err
	}
	r := &replacement{c: c, o: o, journal: journalOf(o.StateDir, view.ID)}
	if err := r.resolve(view); err != nil {
		return nil, err
	}
	m, _ := r.n.find(view.Members)
	if err := r.n.nameIsFree(without(view, map[uint64]bool{r.old.ID: true}), m, r.newThere); err != nil {
		return nil, err
	}
	if err := r.othersWell(view); err != nil {
		return nil, err
	}
	if err := c.sound(view, r.old.ID); err != nil {
		return nil, err
	}
	p := &plan.Plan{Op: c.op, Notes: r.notes(view, m), Detail: r.n.start}
	in, out := r.inSteps(m), r.outSteps(view)
	if r.addFirst {
		p.Steps = append(in, out...)
	} else {
		p.Steps = append(out, in...)
	}
	p.Steps = append(p.Steps, r.finishStep())
	first := true
	for i := range p.Steps {
		s := &p.Steps[i]
		s.AfterEarlier = !first
		first = first && s.State == plan.Skipped
	}
	return p, nil
}

// inSteps bring the new member in.
func (r *replacement) inSteps(m cluster.Member) []plan.Step {
	n := r.n
	add := n.addStep(func(ctx context.Context) error {
		view, err := r.c.View(ctx)
		if err != nil {
			return err
		}
		if err := r.guard(view); err != nil {
			return err
		}
		return n.mayAdd(view, n.gone)
	})
	do := add.Do
	add.Do = func(ctx context.Context, res *plan.StepResult) error {
		if err := r.journal.save(r.record); err != nil {
			return err
		}
		return do(ctx, res)
	}
	steps := []plan.Step{add, n.startedStep(m), n.caughtUpStep()}
	if !r.record.OldLearner {
		promote := n.promoteStep(m)
		promote.Guard = func(ctx context.Context) error {
			view, err := r.c.View(ctx)
			if err != nil {
				return err
			}
			if err := r.guard(view); err != nil {
				return err
			}
			return n.promotable(ctx)
		}
		steps = append(steps, promote)
	}
	return steps
}

// outSteps take the old member out.
func (r *replacement) outSteps(view cluster.View) []plan.Step {
	if !r.oldThere {
		return []plan.Step{{StepResult: plan.StepResult{Subject: r.old.Label(), Action: "remove", State: plan.Skipped, Reason: "is not in the member list any more"}}}
	}
	out := &removal{c: r.c, m: r.old, maxLag: othersLag, others: func(view cluster.View) error {
		if err := r.guard(view); err != nil || r.addFirst {
			return err
		}
		// Before anything goes: can the new one come?
		return r.n.mayAdd(view, r.old.ID)
	}}
	var steps []plan.Step
	if view.Leader == r.old.ID && len(view.Voters())+len(view.Learners()) > 1 {
		steps = append(steps, out.moveStep())
	}
	remove := out.removeStep()
	do := remove.Do
	remove.Do = func(ctx context.Context, res *plan.StepResult) error {
		if err := r.journal.save(r.record); err != nil {
			return err
		}
		if err := do(ctx, res); err != nil {
			return err
		}
		return r.waitEnded(ctx)
	}
	return append(steps, remove)
}

// endLimit is how long the old member's process may take to end: it does 1 s after
// it hears of its removal (stopWithDelay in server/v3/etcdserver).
const endLimit = 15 * time.Second

// waitEnded waits until the old process is gone, where it was alive and the new one
// comes to the same place. If it stays, or is started again, that is for whoever
// starts the new one to see to.
func (r *replacement) waitEnded(ctx context.Context) error {
	if r.old.Status == nil || r.addFirst {
		return nil
	}
	for limit := time.Now().Add(endLimit); time.Now().Before(limit) && r.c.client.PeerAnswers(ctx, r.old); {
		r.c.tell(r.old.Label(), "waiting until its process has ended", "")
		if err := wait.For(ctx, memberPoll); err != nil {
			return err
		}
	}
	return nil
}

// guard looks at the rest of the cluster before each step.
func (r *replacement) guard(view cluster.View) error {
	if err := r.othersWell(view); err != nil {
		return err
	}
	if err := r.c.sound(view, r.old.ID); err != nil {
		return err
	}
	return r.c.notCorrupt(view, r.old.ID)
}

// othersWell refuses while any other voter is missing or lags: it may be what the
// quorum takes a moment later.
func (r *replacement) othersWell(view cluster.View) error {
	others := without(view, map[uint64]bool{r.old.ID: true, r.n.id: true})
	hint := "bring it back first, and replace one member at a time"
	if lost := QuorumLost(view); lost != "" {
		hint = lost + "; " + WaysOut(view)
	}
	if g := votersGate(others); g.refuse != "" {
		return r.c.refused(g.cause, r.old.Label(), "every other voter must be well: "+g.refuse, hint)
	}
	if g := lagGate(others, othersLag); g.refuse != "" {
		return r.c.refused(g.cause, r.old.Label(), "every other voter must be well: "+g.refuse, "wait until it has caught up")
	}
	return nil
}

// finishStep verifies the result and forgets the record.
func (r *replacement) finishStep() plan.Step {
	s := r.n.verifyStep(!r.record.OldLearner, r.old.ID)
	do := s.Do
	s.Do = func(ctx context.Context, res *plan.StepResult) error {
		if err := do(ctx, res); err != nil {
			return err
		}
		return r.journal.drop()
	}
	return s
}

// notes are what the reader must know before saying yes.
func (r *replacement) notes(view cluster.View, m cluster.Member) []string {
	var out []string
	if r.oldThere {
		out = append(out, r.orderNote(view))
	} else {
		out = append(out, fmt.Sprintf("goes on with a replacement that was begun %s", r.record.BegunAt.Format(time.RFC3339)))
	}
	for _, a := range view.Alarms {
		if a.Type == cluster.AlarmCorrupt && a.MemberID == r.old.ID {
			out = append(out, "CORRUPT is raised by it and stays raised when it is gone; afterwards: kvd alarm disarm --type CORRUPT --member "+cluster.FormatID(r.old.ID))
		}
	}
	if s := schemes(view, r.n.peerURLs); s != "" {
		out = append(out, s)
	}
	if !m.Started() {
		out = append(out, "the new member gets its data from the leader: its data dir must be empty, and no snapshot is restored into it (a restore makes a cluster of its own)")
	}
	if !r.addFirst && sameURLs(r.old.PeerURLs, r.n.peerURLs) {
		out = append(out, "same place: the old process ends by itself once it hears that it was removed; keep it from being started again, and move its data dir away")
	}
	return append(out, r.n.notes(m)...)
}

// orderNote says what the order does to the quorum.
func (r *replacement) orderNote(view cluster.View) string {
	now := balanceOf(view)
	if r.old.Learner {
		return "a learner: the quorum stays as it is"
	}
	gone := now.minus(r.old.Alive())
	if r.addFirst {
		between := now
		if !r.newThere || !r.isVoter(view) {
			between = now.plus(true)
		}
		return fmt.Sprintf("the new member comes in before the old one goes. Now: %s; in between: %s; afterwards: %s", now, between, between.minus(r.old.Alive()))
	}
	why := "has the same peer URL"
	if !r.old.Alive() || r.old.Status == nil {
		why = "is down: etcd takes no new member before it is gone"
	}
	return fmt.Sprintf("the old member goes first, since it %s. Now: %s; in between: %s; afterwards: %s", why, now, gone, gone.plus(true))
}

func (r *replacement) isVoter(view cluster.View) bool {
	m, ok := r.n.find(view.Members)
	return ok && !m.Learner
}

// notFound is the answer where nobody goes by the name, and no record tells of it.
// A replacement that was interrupted then has the old member out; the new one may
// be in the list, without a name, and only its peer URLs tell that it is the one.
func (r *replacement) notFound(err error, view cluster.View) error {
	if fault.CauseOf(err) != cluster.CauseMemberNotFound {
		return r.c.onSubject(r.o.Member, err)
	}
	name, urls := r.o.NewName, strings.Join(r.o.PeerURLs, ",")
	if name == "" {
		name = r.o.Member
	}
	if waiting := slices.DeleteFunc(slices.Clone(view.Members), cluster.Member.Started); urls == "" && len(waiting) == 1 {
		urls = strings.Join(waiting[0].PeerURLs, ",")
	}
	if urls == "" {
		urls = "URL"
	}
	return &fault.Error{Kind: fault.Usage, Cause: cluster.CauseMemberNotFound, Op: r.c.op, Subject: r.o.Member,
		Msg: "no member has this name or ID, and no replacement of it was begun from here", Hint: fault.HintOf(err) +
			". If a replacement was interrupted that was begun elsewhere: what is left of it is kvd member add " + shellWord(name) + " --peer-urls " + shellWord(urls)}
}
