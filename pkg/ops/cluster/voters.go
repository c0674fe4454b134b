package cluster

import (
	"context"
	"fmt"

	"kvd/pkg/ops/fault"
)

// VotersKnown reports that the view says who votes. It doesn't where nobody told the
// member list: a learner tells it to nobody (isRPCSupportedForLearner in server/v3/
// etcdserver/api/v3rpc/util.go, the same since 3.4), and with authentication on no
// member does without a user. Such a view says nothing of the quorum, neither that it
// is lost nor that all is well.
func (v View) VotersKnown() bool { return v.ListErr == nil && len(v.Voters()) > 0 }

// VotersErr is nil where it is known who votes, and else says why not and whom to ask.
// It is a *fault.Error with Op op, of kind Unavailable, or Denied where it takes a user.
func (v View) VotersErr(op string) error {
	if v.VotersKnown() {
		return nil
	}
	e := &fault.Error{Kind: fault.Unavailable, Cause: CauseVotersUnknown, Op: op, Hint: "give the endpoint of a voter with --endpoints"}
	switch {
	case len(v.Members) == 0:
		e.Msg, e.Hint = "no member is known", "see `kvd status`"
		return e
	case len(v.Voters()) == 0:
		did := "was asked"
		if len(v.Unreached) > 0 {
			did = "answers"
		}
		e.Msg = fmt.Sprintf("only a learner %s, which does not tell who the members are: the voters are not known", did)
		if v.Leader != 0 {
			e.Msg += "; it follows the leader " + FormatID(v.Leader)
		}
		return e
	}
	if fault.KindOf(v.ListErr) == fault.Denied {
		e.Kind = fault.Denied
	}
	e.Msg = "no member tells the member list, so who else votes is not known: " + fault.Why(v.ListErr)
	if hint := fault.HintOf(v.ListErr); hint != "" {
		e.Hint = hint
	}
	return e
}

// VotersView is View, but an error where it is not known who votes, or not clear which
// cluster is meant. It is for what changes something: nobody may be taken for removed, and
// no cluster for well, because only a learner answered, or a member of another cluster.
func (c *Client) VotersView(ctx context.Context) (View, error) {
	v, err := c.View(ctx)
	if err == nil {
		err = v.OneCluster("")
	}
	if err == nil {
		err = v.VotersErr("")
	}
	return v, err
}
