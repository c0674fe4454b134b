package ops

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// fullRatio is the share of its quota from which a file is called nearly full.
const fullRatio = 0.8

// maxHealthyLag is how many committed entries a member of a healthy cluster may
// have yet to apply. A busy member is always some behind; etcd itself refuses
// writes at 5000 (maxGapBetweenApplyAndCommitIndex).
const maxHealthyLag = 1000

// healthPoll is how often WaitHealthy looks.
const healthPoll = 500 * time.Millisecond

// Unwell says in one line what is wrong with a cluster, or nothing: no leader,
// an alarm, a file above 80 % of its quota. Members that do not answer are
// another matter.
func Unwell(v cluster.View) string {
	var why []string
	if v.Leader == 0 {
		why = append(why, "no leader")
	}
	// Where it is not known who votes, that is for the caller to say.
	if n := QuorumLost(v); n != "" {
		why = append(why, n)
	}
	for _, a := range v.Alarms {
		why = append(why, fmt.Sprintf("%s raised by %s", a.Type, alarmOwner(a)))
	}
	for _, m := range v.Answered() {
		if r, ok := m.Status.UsageRatio(); ok && r >= fullRatio {
			why = append(why, fmt.Sprintf("%s is at %.0f %% of its quota", m.Label(), 100*r))
		}
	}
	return strings.Join(why, "; ")
}

// QuorumLost says so where fewer voters answer than a quorum takes, or nothing: also
// where it is not known who votes, see cluster.View.VotersErr. A leader may still be
// named then: members notice one election timeout later.
func QuorumLost(v cluster.View) string {
	if !v.QuorumLost() {
		return ""
	}
	return fmt.Sprintf("NO QUORUM: %d of %d voters answer, %d needed", v.VotersAlive(), len(v.Voters()), v.Quorum())
}

// notYet says why a cluster cannot be called healthy, or nothing.
func notYet(v cluster.View) string {
	for _, m := range v.Voters() {
		if m.Status == nil {
			return fmt.Sprintf("%s does not answer: %v", m.Label(), m.Err)
		}
		if lag := v.Lag(m); lag > maxHealthyLag {
			return fmt.Sprintf("%s has %d entries to apply", m.Label(), lag)
		}
	}
	if v.Leader == 0 {
		return "no leader"
	}
	for _, a := range v.Alarms {
		return fmt.Sprintf("%s raised by %s", a.Type, alarmOwner(a))
	}
	return ""
}

// WaitHealthy waits until every voter answers, there is a leader, no alarm is
// raised and nobody lags, and returns that view; or the latest one with an error
// of kind Unavailable that says what was missing when the time was up.
func WaitHealthy(ctx context.Context, client *cluster.Client, timeout time.Duration, sink progress.Sink) (cluster.View, error) {
	deadline := time.Now().Add(timeout)
	for {
		view, err := client.VotersView(ctx)
		missing := ""
		if err != nil {
			missing = strings.ReplaceAll(err.Error(), "\n", "; ") // of several endpoints, one a line
		} else if missing = notYet(view); missing == "" {
			return view, nil
		}
		if time.Now().After(deadline) {
			return view, &fault.Error{Kind: fault.Unavailable, Cause: "not_healthy", Op: "status",
				Msg: fmt.Sprintf("not healthy after %s: %s", timeout, missing), Hint: fault.HintOf(err)}
		}
		sink.Event(progress.Event{Op: "status", Phase: "waiting until the cluster is healthy", Note: missing})
		if err := wait.For(ctx, healthPoll); err != nil {
			return view, err
		}
	}
}

// notReached reports that a member that does not answer may well run: the cluster
// commits although too few voters are seen, or its address leads to another member.
func notReached(v cluster.View, m cluster.Member) bool {
	return v.Commits || fault.CauseOf(m.Err) == cluster.CauseOtherMember
}

// reachHelp is what helps against that.
func reachHelp(m cluster.Member) string {
	if cluster.IsBusy(m.Err) {
		return "look again later: a member that defragments or starts answers nobody meanwhile, and is not to be removed for that"
	}
	return "give --endpoints that lead to it: no member is to be removed for not being reached from here"
}
