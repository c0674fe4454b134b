package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

const (
	memberPoll = 500 * time.Millisecond
	// changeLimit is how long a change that etcd refuses for the moment is tried
	// again: it wants its peers to have been connected for 5 s (HealthInterval in
	// server/v3/etcdserver), which a leader that was just elected has to wait for.
	changeLimit = time.Minute
)

// membership is one change of the member list being planned or carried out. It is
// used by one goroutine.
type membership struct {
	client *cluster.Client
	sink   progress.Sink
	op     string // "member add"
}

// View, MoveLeader and Metrics make it a leaderCluster.

func (c *membership) View(ctx context.Context) (cluster.View, error) { return c.client.VotersView(ctx) }

func (c *membership) MoveLeader(ctx context.Context, from, to uint64) error {
	m, err := c.client.Member(from)
	if err != nil {
		return err
	}
	return m.MoveLeader(ctx, to)
}

func (c *membership) Metrics(ctx context.Context, m cluster.Member) (*metrics.Sample, error) {
	http := c.client.HTTPClient()
	defer http.CloseIdleConnections()
	return metrics.FetchOf(ctx, http, metrics.Overrides{}.For(m.Name, cluster.FormatID(m.ID), m.Endpoint), m.ID)
}

var _ leaderCluster = (*membership)(nil)

// tell reports progress.
func (c *membership) tell(subject, phase, note string) {
	c.sink.Event(progress.Event{Op: c.op, Subject: subject, Phase: phase, Note: note})
}

// refused is a guard's answer.
func (c *membership) refused(cause, subject, msg, hint string) error {
	return &fault.Error{Kind: fault.Refused, Cause: cause, Op: c.op, Subject: subject, Msg: msg, Hint: hint}
}

// usage is the answer to a call that is wrong.
func (c *membership) usage(cause, msg, hint string) error {
	return &fault.Error{Kind: fault.Usage, Cause: cause, Op: c.op, Msg: msg, Hint: hint}
}

// askable returns a client of the member that a change is asked of: the leader, or
// where that is the one to go another voter that answers.
func (c *membership) askable(ctx context.Context, not uint64) (*cluster.MemberClient, error) {
	view, err := c.View(ctx)
	if err != nil {
		return nil, err
	}
	m, ok := voterBut(view, not)
	if !ok {
		return nil, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoLeader, Op: c.op, Msg: "no voter answers that could be asked"}
	}
	return c.client.Member(m.ID)
}

// voterBut is a voter that answers, but not this one: the leader if it can be.
func voterBut(view cluster.View, not uint64) (cluster.Member, bool) {
	if view.Leader != not {
		if m, ok := view.LeaderMember(); ok && m.Status != nil {
			return m, true
		}
	}
	best, ok := nextLeader(view, map[uint64]bool{not: true})
	return best, ok && best.ID != not
}

// change makes one change and tries again while etcd refuses it for the moment,
// or while nobody knows whether it took effect. done tells from the list whether
// it has; so a change is never made twice.
func (c *membership) change(ctx context.Context, subject string, not uint64, try func(*cluster.MemberClient) error, done func([]cluster.Member) bool) error {
	unsure := false
	for limit := time.Now().Add(changeLimit); ; {
		mc, err := c.askable(ctx, not)
		if err == nil {
			if err = try(mc); err == nil {
				return nil
			}
			if list, lerr := mc.Members(ctx); lerr == nil && done(list) {
				return nil // it was done all the same, by this request or by one before
			}
		}
		if !passing(err) || ctx.Err() != nil || time.Now().After(limit) {
			return c.onSubject(subject, err)
		}
		c.tell(subject, "waiting for etcd to take the change", fault.Why(err))
		unsure = unsure || uncertain(err)
		if err := pause(ctx, unsure); err != nil {
			return err
		}
	}
}

// pause waits before a change is tried again. A stop ends that where etcd has said
// no; where nobody is sure, whether it took effect has to be found out.
func pause(ctx context.Context, unsure bool) error {
	if unsure {
		return wait.For(ctx, memberPoll)
	}
	waiting, cancel := plan.Waiting(ctx)
	defer cancel()
	return wait.For(waiting, memberPoll)
}

// passing reports that an error may be gone the next moment: an election, a peer
// that has not been connected for long enough, an answer that did not come.
func passing(err error) bool {
	switch fault.CauseOf(err) {
	case cluster.CauseUnhealthy, cluster.CauseLeaderChanged, cluster.CauseNoLeader, cluster.CauseTooManyRequests, cluster.CauseLearnerNotReady:
		return true
	}
	return uncertain(err)
}

// onSubject says whom an error of a request was about.
func (c *membership) onSubject(subject string, err error) error {
	var e *fault.Error
	if !errors.As(err, &e) {
		return err
	}
	return e.On(c.op, subject)
}

// checkPeerURLs reads peer URLs as etcd does, and returns them as it writes them.
func (c *membership) checkPeerURLs(urls []string) ([]string, error) {
	if len(urls) == 0 {
		return nil, c.usage("flag", "no --peer-urls", "where the other members are to reach it, for example --peer-urls https://10.0.0.4:2380")
	}
	parsed, err := types.NewURLs(urls)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Usage, Cause: "flag", Op: c.op, Subject: "--peer-urls", Err: err,
			Hint: "want SCHEME://HOST:PORT, for example https://10.0.0.4:2380"}
	}
	return parsed.StringSlice(), nil
}

// withPeerURL finds the members that have one of these peer URLs.
func withPeerURL(members []cluster.Member, urls []string) []cluster.Member {
	var out []cluster.Member
	for _, m := range members {
		if overlap(m.PeerURLs, urls) {
			out = append(out, m)
		}
	}
	return out
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(u string) bool { return slices.Contains(b, u) })
}

func byID(members []cluster.Member, id uint64) (cluster.Member, bool) {
	i := slices.IndexFunc(members, func(m cluster.Member) bool { return m.ID == id })
	if i < 0 {
		return cluster.Member{}, false
	}
	return members[i], true
}

func labels(members []cluster.Member) string {
	out := make([]string, 0, len(members))
	for _, m := range members {
		out = append(out, m.Label())
	}
	return strings.Join(out, ", ")
}

// counted writes a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
