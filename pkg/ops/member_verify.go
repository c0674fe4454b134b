package ops

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/wait"
)

// verifyLimit is how long the members may take to agree on a change.
const verifyLimit = 30 * time.Second

// verify waits until nothing is missing, and then proves that the cluster takes
// writes: through the given member, or through every voter that answers for 0.
func (c *membership) verify(ctx context.Context, through uint64, missing func(cluster.View) string) (string, error) {
	for limit := time.Now().Add(verifyLimit); ; {
		view, err := c.View(ctx)
		lack := ""
		if err != nil {
			lack = fault.Why(err)
		} else if lack = missing(view); lack == "" {
			lack = leaderGate(answering(view)).refuse
		}
		if lack == "" {
			return c.proveAll(ctx, view, through)
		}
		if time.Now().After(limit) {
			return "", &fault.Error{Kind: fault.Unavailable, Cause: "not_verified", Op: c.op, Msg: fmt.Sprintf("not as it should be after %s: %s", verifyLimit, lack),
				Hint: "the change itself was made; see `kvd member list` and `kvd status`"}
		}
		c.tell("cluster", "verifying", lack)
		if err := wait.For(ctx, memberPoll); err != nil {
			return "", err
		}
	}
}

// answering is a view of the members that answer.
func answering(view cluster.View) cluster.View {
	silent := map[uint64]bool{}
	for _, m := range view.Silent() {
		silent[m.ID] = true
	}
	return without(view, silent)
}

// proveAll proves that writes pass.
func (c *membership) proveAll(ctx context.Context, view cluster.View, through uint64) (string, error) {
	how, proved := "", 0
	for _, m := range view.Voters() {
		if m.Status == nil || (through != 0 && m.ID != through) {
			continue
		}
		var err error
		if how, err = c.prove(ctx, m); err != nil {
			return "", c.onSubject(m.Label(), err)
		}
		proved++
	}
	if proved == 0 {
		return balanceOf(view).String(), nil
	}
	return fmt.Sprintf("%s; %s through %s", balanceOf(view), how, counted(proved, "voter")), nil
}

// prove sends a write through a member that leaves nothing behind. Under NOSPACE a
// delete of a key that does not exist passes where a lease is refused; under
// CORRUPT nothing does.
func (c *membership) prove(ctx context.Context, m cluster.Member) (string, error) {
	err := proveWrite(ctx, c.client, c.op, m)
	switch fault.CauseOf(err) {
	case cluster.CauseNoSpace:
		return "NOSPACE is raised, a delete passes", c.proveDelete(ctx, m)
	case cluster.CauseCorrupt:
		return "not proved by a write, since CORRUPT is raised; asked", nil
	}
	return "a write passes", err
}

func (c *membership) proveDelete(ctx context.Context, m cluster.Member) error {
	mc, err := c.client.Member(m.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.Config().CommandTimeout)
	defer cancel()
	_, err = mc.Etcd().Delete(ctx, absentKey)
	return mc.Explain(ctx, c.op, err)
}

// absentKey is a key that nobody has.
const absentKey = "\x00kvd/absent"

// verifyStep checks that the newcomer is what it was to become, that as many
// members vote as should, and that the one to go is gone.
func (n *newcomer) verifyStep(voter bool, gone uint64) plan.Step {
	return plan.Step{
		StepResult:   plan.StepResult{Subject: "cluster", Action: "verify", Reason: "the member list of each voter, the leader, a write"},
		AfterEarlier: true,
		Do: func(ctx context.Context, r *plan.StepResult) (err error) {
			through := n.id
			if !voter {
				through = 0 // a learner takes no writes
			}
			r.Reason, err = n.c.verify(ctx, through, func(view cluster.View) string { return n.lacks(ctx, view, voter, gone) })
			return err
		},
	}
}

// lacks says what is not yet as it should be.
func (n *newcomer) lacks(ctx context.Context, view cluster.View, voter bool, gone uint64) string {
	m, ok := byID(view.Members, n.id)
	switch {
	case !ok:
		return n.label() + " is not in the member list"
	case voter && m.Learner:
		return n.label() + " is still a learner"
	case m.Name == "":
		return n.label() + " has not started"
	case m.Status == nil:
		return n.label() + " does not answer"
	}
	return n.c.listsAgree(ctx, view, func(list []cluster.Member) string {
		if _, ok := byID(list, n.id); !ok {
			return "has not heard of " + n.label()
		}
		if _, ok := byID(list, gone); ok {
			return "has still " + cluster.FormatID(gone) + " in its list"
		}
		return ""
	})
}

// listsAgree asks every voter that answers for its own list.
func (c *membership) listsAgree(ctx context.Context, view cluster.View, wrong func([]cluster.Member) string) string {
	for _, v := range view.Voters() {
		if v.Status == nil {
			continue
		}
		mc, err := c.client.Member(v.ID)
		if err != nil {
			return fault.Why(err)
		}
		list, err := mc.OwnMembers(ctx)
		if err != nil {
			return v.Label() + ": " + fault.Why(err)
		}
		if w := wrong(list); w != "" {
			return v.Label() + " " + w
		}
	}
	return ""
}
