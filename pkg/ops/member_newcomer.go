package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// JoinOptions say how a new member comes in.
type JoinOptions struct {
	ClientURLs  []string      // where it will serve clients; for the start line only
	MaxLag      uint64        // committed entries that it may have to apply when it is promoted
	MaxLearners int           // the servers' --max-learners
	Timeout     time.Duration // for it to start, and again for it to catch up; 0: no limit
	Start       string        // command that starts it; empty: somebody does
	HookTimeout time.Duration // for that command
}

// DefaultJoinOptions returns what is done when told nothing.
func DefaultJoinOptions() JoinOptions {
	return JoinOptions{MaxLag: maxHealthyLag, MaxLearners: 1, Timeout: 30 * time.Minute, HookTimeout: 5 * time.Minute}
}

// newcomer is the member that is to come in.
type newcomer struct {
	c        *membership
	o        JoinOptions
	name     string
	peerURLs []string
	id       uint64 // 0 before it was added
	voter    bool   // is added as a voter
	gone     uint64 // a member that will have been removed when it starts
	resumed  bool   // was added by an earlier run
	except   uint64 // a member that is to go, and so may be the corrupt one
	start    *MemberStart
	argv     []string // of o.Start
}

// prepare checks what can be checked before anything is done.
func (n *newcomer) prepare(view cluster.View) (err error) {
	if unlistable(n.name) {
		return n.c.usage("name", fmt.Sprintf("no member of the name %q can join: --initial-cluster, with which it has to be started, is NAME=URL,NAME=URL,…", n.name),
			"choose a name without comma and equals sign; member replace takes it with --new-name")
	}
	if n.peerURLs, err = n.c.checkPeerURLs(n.peerURLs); err != nil {
		return err
	}
	if n.argv, err = argv(n.c.op, "--start", n.o.Start); err != nil {
		return err
	}
	m, there := n.find(view.Members)
	clientURLs := n.o.ClientURLs
	if len(clientURLs) == 0 {
		clientURLs = m.ClientURLs // which it has told, if it ever started
	}
	n.start = new(StartOf(view, n.name, n.peerURLs, clientURLs, n.gone))
	if there && m.Started() {
		n.start.again()
	}
	if n.id != 0 {
		n.start.ID, n.resumed = cluster.FormatID(n.id), true
	}
	return nil
}

// notes tell a person how to start the newcomer, if that is still to be done. One
// that has joined has acknowledged entries: with an empty data dir it would have
// forgotten them, and etcd ends with a panic where a log goes backwards.
func (n *newcomer) notes(m cluster.Member) []string {
	switch {
	case m.ID == 0 || !m.Started():
		return n.start.notes()
	case m.Alive():
		return nil
	}
	return []string{fmt.Sprintf("%s has joined before and does not answer: start it again, with its own data dir and not an empty one; if that is lost, "+
		"remove it first (kvd member remove %s)", m.Label(), cluster.FormatID(m.ID))}
}

// standing says what the newcomer means for the quorum while it is not there.
func standing(m cluster.Member) string {
	if m.ID != 0 && !m.Learner {
		return "it is a voter and counts for the quorum, running or not"
	}
	return "it is a learner and does not count for the quorum"
}

func (n *newcomer) label() string {
	if n.id == 0 {
		return n.name
	}
	return fmt.Sprintf("%s (%s)", n.name, cluster.FormatID(n.id))
}

// find looks for the newcomer in a list: by its ID, or by its peer URLs before
// that is known.
func (n *newcomer) find(members []cluster.Member) (cluster.Member, bool) {
	if n.id != 0 {
		return byID(members, n.id)
	}
	i := slices.IndexFunc(members, func(m cluster.Member) bool { return m.ID != n.gone && sameURLs(m.PeerURLs, n.peerURLs) })
	if i < 0 {
		return cluster.Member{}, false
	}
	return members[i], true
}

func sameURLs(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// mayAdd says whether the cluster takes the newcomer now. without is a member that
// is removed before, 0 for none.
func (n *newcomer) mayAdd(view cluster.View, removed uint64) error {
	if err := n.noDowngrade(view); err != nil {
		return err
	}
	rest := without(view, map[uint64]bool{removed: true})
	b := balanceOf(rest)
	if taken := withPeerURL(rest.Members, n.peerURLs); len(taken) > 0 {
		return n.c.refused(cluster.CausePeerURLExists, n.name, "the peer URL belongs to "+labels(taken),
			"give the new member a URL of its own; to put it in the place of that member: kvd member replace "+nameOrID(taken[0]))
	}
	if learners := rest.Learners(); !n.voter && len(learners) >= n.o.MaxLearners {
		return n.c.refused(cluster.CauseTooManyLearners, n.name, fmt.Sprintf("there is a learner already: %s; etcd takes %s (--max-learners of the servers)",
			labels(learners), counted(n.o.MaxLearners, "learner")), "promote it or remove it first; where the servers are set to take more, say so with --max-learners")
	}
	if n.voter {
		return n.c.keepsQuorum(n.name, "adding a voter, which counts from now on and does not run yet,", b.plus(false),
			"add it as a learner, which does not count, and promote it once it runs: leave out --voter")
	}
	if need := b.plus(false).quorum(); b.voters > 1 && b.alive < need {
		return n.c.refused(cluster.CauseUnhealthy, n.name, fmt.Sprintf("%d of %s answer, and etcd takes a new member, also a learner, only while %d are connected",
			b.alive, counted(b.voters, "voter"), need), "bring the missing voters back, remove them, or replace them: "+silentVoters(rest))
	}
	return nil
}

func silentVoters(view cluster.View) string {
	var out []string
	for _, m := range view.Voters() {
		if !m.Alive() {
			out = append(out, "kvd member replace "+nameOrID(m))
		}
	}
	return strings.Join(out, ", ")
}

func nameOrID(m cluster.Member) string {
	if m.Name != "" {
		return m.Name
	}
	return cluster.FormatID(m.ID)
}

// nameAmong is nameOrID, of a member that may share its name with another.
func nameAmong(view cluster.View, m cluster.Member) string {
	for _, o := range view.Members {
		if o.ID != m.ID && o.Name == m.Name {
			return cluster.FormatID(m.ID)
		}
	}
	return nameOrID(m)
}

// addStep adds the newcomer to the list.
func (n *newcomer) addStep(guard func(context.Context) error) plan.Step {
	action := "add as learner"
	if n.voter {
		action = "add as voter"
	}
	s := plan.Step{StepResult: plan.StepResult{Subject: n.label(), Action: action, Reason: "peer URL " + strings.Join(n.peerURLs, ",")}, Guard: guard}
	if n.id != 0 {
		s.State, s.Reason = plan.Skipped, "is in the member list already"
	}
	s.Do = func(ctx context.Context, r *plan.StepResult) error {
		err := n.c.change(ctx, n.name, n.gone,
			func(mc *cluster.MemberClient) error {
				_, list, err := mc.AddMember(ctx, n.peerURLs, !n.voter)
				if err == nil {
					n.take(list)
				}
				return sameSecond(err)
			}, n.take)
		if err != nil {
			return err
		}
		r.Reason = "its ID is " + cluster.FormatID(n.id)
		return nil
	}
	return s
}

// sameSecond knows what etcd means where it does not find the member that it is to
// add. It makes the ID of the URLs and the time in seconds (computeMemberID in
// server/v3/etcdserver/api/membership/member.go), and one that was added and
// removed within this second has had the same. The next second it passes.
func sameSecond(err error) error {
	var e *fault.Error
	if fault.CauseOf(err) != cluster.CauseMemberNotFound || !errors.As(err, &e) {
		return err
	}
	return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseUnhealthy, Op: e.Op, Subject: e.Subject,
		Msg: "a member with this peer URL was removed within this second", Hint: "run this again", Err: e.Err}
}

// take notes the newcomer's ID from a list that has it.
func (n *newcomer) take(list []cluster.Member) bool {
	m, ok := n.find(list)
	if ok {
		n.id, n.start.ID = m.ID, cluster.FormatID(m.ID)
	}
	return ok
}

// startedStep shows how to start the newcomer, or starts it, and waits until it
// has joined. A member has a name in the list from the moment it serves clients:
// by then it has the data that were there when it joined.
func (n *newcomer) startedStep(m cluster.Member) plan.Step {
	s := plan.Step{StepResult: plan.StepResult{Subject: n.label(), Action: "wait until it has started", Reason: "you start it, see the note"}, AfterEarlier: true}
	if len(n.argv) > 0 {
		s.Action, s.Reason = "start it", "with "+n.argv[0]
	}
	if m.Name != "" {
		s.State, s.Reason = plan.Skipped, "has started"
	}
	s.Do = func(ctx context.Context, r *plan.StepResult) error {
		if err := n.startIt(ctx); err != nil {
			return err
		}
		m, err := n.waitStarted(ctx)
		if err != nil {
			return err
		}
		r.Reason = "serves clients at " + strings.Join(m.ClientURLs, ",")
		if m.Name != n.name {
			r.Reason = fmt.Sprintf("goes by the name %s, not %s; %s", m.Name, n.name, r.Reason)
		}
		return nil
	}
	return s
}

// startIt runs the user's command, unless a process is connected as this member.
func (n *newcomer) startIt(ctx context.Context) error {
	if len(n.argv) == 0 {
		n.c.sink.Event(progress.Event{Op: n.c.op, Subject: n.label(), Phase: "start it now, with an empty data dir", State: "waiting", Note: n.start.Kvd})
		return nil
	}
	if up, err := n.startedBefore(ctx); up || err != nil {
		return err
	}
	env := append([]string{"KVD_MEMBER_NAME=" + n.name, "KVD_MEMBER_ID=" + n.start.ID, "KVD_PEER_URLS=" + strings.Join(n.peerURLs, ","),
		"KVD_START_ARGS=" + strings.Join(n.start.Args, " ")}, n.start.Env...)
	if err := runHook(ctx, n.o.HookTimeout, "--start", n.argv, env); err != nil {
		return &fault.Error{Kind: fault.Unavailable, Cause: "hook", Op: n.c.op, Subject: n.label(), Err: err,
			Hint: standing(cluster.Member{ID: n.id, Learner: !n.voter}) + "; start it by hand, and run this again"}
	}
	return nil
}

// resumeWait is how long a member that an earlier run has added may take to be
// connected, in case that run has started it as well.
const resumeWait = 5 * time.Second

// startedBefore reports that a process runs as this member already. The command is
// not run again then: one that empties the data dir would take from a learner what
// it has acknowledged, and etcd ends with a panic where a log goes backwards.
func (n *newcomer) startedBefore(ctx context.Context) (bool, error) {
	for limit := time.Now().Add(resumeWait); n.resumed && time.Now().Before(limit); {
		if n.connected(ctx) {
			return true, nil
		}
		n.c.tell(n.label(), "looking whether it was started before", "")
		if err := wait.For(ctx, memberPoll); err != nil {
			return false, err
		}
	}
	return n.connected(ctx), nil
}

// connected reports that the leader has a connection to a process with the
// newcomer's ID (etcd_network_active_peers). What answers at its peer URL may
// still be whoever was there before.
func (n *newcomer) connected(ctx context.Context) bool {
	view, err := n.c.View(ctx)
	if err != nil {
		return false
	}
	leader, ok := view.LeaderMember()
	if !ok || leader.Status == nil {
		return false
	}
	s, err := n.c.Metrics(ctx, leader)
	if err != nil {
		return false
	}
	v, ok := s.Value(metrics.ActivePeers, metrics.Labels{"Remote": cluster.FormatID(n.id)})
	return ok && v > 0
}

// waitStarted waits until the newcomer has a name.
func (n *newcomer) waitStarted(ctx context.Context) (cluster.Member, error) {
	ctx, cancel := plan.Waiting(ctx)
	defer cancel()
	for limit := n.limit(); ; {
		view, err := n.c.View(ctx)
		note := ""
		if err != nil {
			note = fault.Why(err)
		} else if m, ok := n.find(view.Members); !ok {
			if err := n.removed(ctx); err != nil {
				return m, err
			}
			note = unheardOf
		} else if m.Name != "" {
			return m, nil
		} else if note = "nothing answers at " + strings.Join(n.peerURLs, ",") + " yet"; n.c.client.PeerAnswers(ctx, m) {
			note = "something answers at " + strings.Join(n.peerURLs, ",") + ", and has not joined"
			if n.connected(ctx) {
				note = "is connected, and gets the data"
			} else if why := strange(ctx, n.c.client, view, n.peerURLs); why != "" {
				note = why + "; stop it, and start it as shown, with an empty data dir"
			}
		}
		if n.over(limit) {
			return cluster.Member{}, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNotStarted, Op: n.c.op, Subject: n.label(),
				Msg: fmt.Sprintf("has not joined within %s: %s", n.o.Timeout, note),
				Hint: "it does not count for the quorum as long as it is a learner. Its own log tells why: a data dir that was not empty, an --initial-cluster " +
					"other than the one shown, a certificate. Start it and run this again; if its data dir was emptied a second time, remove it first: kvd member remove " + cluster.FormatID(n.id)}
		}
		n.c.tell(n.label(), "waiting until it has started", note)
		if err := wait.For(ctx, memberPoll); err != nil {
			return cluster.Member{}, err
		}
	}
}

// unheardOf is what there is to say of a newcomer that was added and that the
// member asked for the list, one without the others, does not have in it.
const unheardOf = "the member that was asked has not heard of it yet"

// removed is the error of a newcomer that is in no list any more, as far as that
// can be told: by what was decided, which a member that lags has yet to hear.
func (n *newcomer) removed(ctx context.Context) error {
	mc, err := n.c.askable(ctx, n.gone)
	if err != nil {
		return nil
	}
	list, err := mc.Members(ctx)
	if err != nil {
		return nil
	}
	if _, there := n.find(list); there {
		return nil
	}
	return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseMemberNotFound, Op: n.c.op, Subject: n.label(),
		Msg: "is not in the member list any more: somebody has removed it", Hint: "run this again"}
}

func (n *newcomer) limit() time.Time { return time.Now().Add(n.o.Timeout) }
func (n *newcomer) over(limit time.Time) bool {
	return n.o.Timeout > 0 && time.Now().After(limit)
}
