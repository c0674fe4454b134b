package ops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// DefragOptions says which members to defragment, when, and how carefully.
type DefragOptions struct {
	Members         []string      // names or hexadecimal IDs; empty: every voter
	If              string        // a rule that is asked for each member (see CompileDefragRule); empty: none, and MinGain decides alone
	Quota           int64         // bytes; what rules take for the quota of servers before 3.6. 0: what their metrics tell
	MinGain         int64         // bytes that a member must give back, whatever the rule; < 0: the larger of 1 MiB and 1 % of its file
	MaxLag          uint64        // committed raft entries that any voter may have still to apply
	Settle          time.Duration // pause between two members, and around a move of the leadership
	Timeout         time.Duration // how long to wait for the member's own answer, 0: by size; after it, its metrics are followed
	ContinueOnError bool          // go on with the next member after one failed
	BeforeMember    string        // command run before each member; if it fails, the member is skipped
	AfterMember     string        // command run after each member; if it fails, the run stops
	HookTimeout     time.Duration // for each of the two commands
	DataDir         string        // of the member on this machine, where it can't be found by itself
	SkipDiskCheck   bool          // do not look for room for the copy
	MetricsURLs     []string      // NAME=URL, for members that serve /metrics elsewhere than their client URL
}

// DefaultDefragOptions returns what `kvd defrag` does when told nothing.
func DefaultDefragOptions() DefragOptions {
	return DefragOptions{MinGain: -1, MaxLag: 5000, Settle: 5 * time.Second, HookTimeout: time.Minute}
}

// check finds what cannot be meant.
func (o DefragOptions) check() error {
	usage := func(msg string) error { return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "defrag", Msg: msg} }
	switch {
	case o.Settle < 0:
		return usage(fmt.Sprintf("--settle %s: want 0 or more", o.Settle))
	case o.HookTimeout <= 0 && o.BeforeMember+o.AfterMember != "":
		return usage(fmt.Sprintf("--hook-timeout %s: want more than 0, for example 1m", o.HookTimeout))
	case o.DataDir == "":
		return nil
	}
	if _, err := os.Stat(filepath.Join(o.DataDir, "member", "snap")); err != nil {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "defrag", Subject: "--data-dir", Msg: "no data directory of a member that can be looked into", Err: err,
			Hint: "give the server's --data-dir, or leave it out: a member on this machine is found by itself"}
	}
	return nil
}

// defragmentation is one run being planned or carried out. It is used by one
// goroutine.
type defragmentation struct {
	c     defragCluster
	opts  DefragOptions
	sink  progress.Sink
	rule  *DefragRule
	hooks defragHooks
	local func(m cluster.Member) (defragDisk, bool) // the disk under a member, if it can be seen from here

	quotas cluster.View // those of members that do not tell theirs each time; empty: nobody's

	late bool // members are judged when their turn comes, see planDefragLate
	// packs tells how many bytes a defragmentation wins beside the free pages, see
	// recovery.packs; nil: nobody knows.
	packs func(cluster.Member) int64
	// settleSizes waits until sizes have settled, see judgeLate; nil once it has been done.
	settleSizes func(ctx context.Context) (cluster.View, error)

	todo map[uint64]bool // members that have yet to be defragmented
	last time.Time       // when the last step that disturbed the cluster ended
	dist uint64          // the member that it disturbed
}

// PlanDefrag plans to defragment the members that gain from it: followers one by
// one, then the leader after its leadership was moved away. Nothing that changes
// anything is sent. A member that has nothing to gain, and a learner, is in the
// plan as skipped. Before every step the guard takes a fresh look (see
// defrag_guard.go). A wrong rule, member or command is an error of kind Usage.
func PlanDefrag(ctx context.Context, client *cluster.Client, view cluster.View, o DefragOptions, sink progress.Sink) (*plan.Plan, error) {
	return planDefragAs(ctx, client, view, o, sink, false, nil)
}

func planDefragAs(ctx context.Context, client *cluster.Client, view cluster.View, o DefragOptions, sink progress.Sink, late bool, packs func(cluster.Member) int64) (*plan.Plan, error) {
	urls, err := o.metricsOf(view)
	if err != nil {
		return nil, err
	}
	if !late { // else sizes are looked at when each member's turn comes
		if err := apartErr(ctx, client, view, "defrag", "defragmenting rewrites a file that may be the evidence"); err != nil {
			return nil, err
		}
		if view, err = trueSizes(ctx, client, view); err != nil {
			return nil, err
		}
	}
	d := newDefragmentation(&liveCluster{client: client, urls: urls, http: client.HTTPClient()}, o, sink)
	if o.If != "" && o.Quota == 0 {
		d.quotas = WithQuotas(ctx, client, urls, view)
	}
	d.late, d.packs = late, packs
	d.settleSizes = func(ctx context.Context) (cluster.View, error) { return waitSettled(ctx, client, sink, "defrag") }
	return d.plan(ctx, view)
}

func newDefragmentation(c defragCluster, o DefragOptions, sink progress.Sink) *defragmentation {
	d := &defragmentation{c: c, opts: o, sink: sink, todo: map[uint64]bool{}}
	d.local = d.diskOf
	return d
}

func (d *defragmentation) plan(ctx context.Context, view cluster.View) (*plan.Plan, error) {
	o := d.opts
	err := o.check()
	if err != nil {
		return nil, err
	}
	if d.rule, err = CompileDefragRule(o.If); err != nil {
		return nil, err
	}
	if d.hooks, err = parseHooks(o); err != nil {
		return nil, err
	}
	if err := view.VotersErr("defrag"); err != nil {
		return nil, err
	}
	selected, err := selectMembers(view, o.Members)
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{Op: "defrag", GoOn: d.goOn}
	for _, m := range DefragOrder(view, selected) {
		skipped, err := d.judge(view, m)
		if d.late && !m.Learner {
			skipped, err = "", nil
		}
		if err != nil {
			return nil, err
		}
		if skipped != "" {
			p.Steps = append(p.Steps, plan.Step{StepResult: predicted(m, plan.Skipped, skipped)})
			continue
		}
		d.todo[m.ID] = true
		if view.Role(m) == cluster.RoleLeader && len(view.Voters()) > 1 {
			p.Steps = append(p.Steps, d.moveStep(m, len(p.Steps) > 0))
		}
		p.Steps = append(p.Steps, d.memberStep(m, len(p.Steps) > 0))
	}
	p.Notes = d.notes(ctx, view)
	return p, nil
}

// judge says why a member need not be defragmented, or nothing.
func (d *defragmentation) judge(view cluster.View, m cluster.Member) (string, error) {
	switch {
	case m.Learner:
		return "a learner: rpc not supported for learner; it is defragmented after its promotion, or at a start with --bootstrap-defrag-threshold-megabytes", nil
	case m.Status == nil:
		return "", nil // a voter that is missing: the guard says so
	}
	if d.rule != nil {
		yes, why, err := d.rule.Ask(d.ruleInput(view, m))
		if err != nil || !yes {
			return why, err
		}
	}
	if gain, least := gainOf(m.Status), d.minGain(m.Status); gain < least && (d.packs == nil || d.packs(m) < least) {
		return fmt.Sprintf("nothing to gain: %s of %s are free, less than %s (--min-gain)",
			binary(gain), binary(m.Status.DBSize), binary(least)), nil
	}
	return "", nil
}

// gainOf predicts by how many bytes a defragmentation makes the file smaller.
func gainOf(s *cluster.Status) int64 { return max(0, s.DBSize-s.DBInUse) }

// minGain returns what a member must have to gain, in bytes.
func (d *defragmentation) minGain(s *cluster.Status) int64 {
	if d.opts.MinGain >= 0 {
		return d.opts.MinGain
	}
	return max(1<<20, s.DBSize/100)
}

// predicted is a member's line in the plan.
func predicted(m cluster.Member, state plan.State, reason string) plan.StepResult {
	r := plan.StepResult{Subject: m.Label(), Action: "defragment", State: state, Reason: reason}
	if m.Status == nil {
		return r
	}
	r.BeforeBytes, r.AfterBytes = plan.Bytes(m.Status.DBSize), plan.Bytes(m.Status.DBInUse)
	if state == plan.Skipped {
		r.AfterBytes = plan.Bytes(m.Status.DBSize)
	}
	return r
}

// goOn says whether the run goes on after a step failed. Where nobody knows
// whether a member still defragments, it never does.
func (d *defragmentation) goOn(err error) bool {
	return d.opts.ContinueOnError && fault.CauseOf(err) != causeDefragUnknown && fault.KindOf(err) != fault.Interrupted
}

func selectMembers(view cluster.View, names []string) ([]cluster.Member, error) {
	if len(names) == 0 {
		return view.Members, nil
	}
	var out []cluster.Member
	seen := map[uint64]bool{}
	for _, n := range names {
		m, err := view.FindMember(n)
		if err != nil {
			return nil, err
		}
		if !seen[m.ID] {
			out = append(out, m)
		}
		seen[m.ID] = true
	}
	return out, nil
}

// metricsOf reads MetricsURLs, which name members of the view.
func (o DefragOptions) metricsOf(view cluster.View) (metrics.Overrides, error) {
	urls, err := metrics.ParseOverrides(o.MetricsURLs)
	if err != nil {
		return nil, err
	}
	return urls, checkOverrides("defrag", urls, view)
}

func checkOverrides(op string, urls metrics.Overrides, view cluster.View) error {
	var known []string
	for _, m := range view.Members {
		known = append(known, m.Name, cluster.FormatID(m.ID))
	}
	if bad := urls.Unknown(known); len(bad) > 0 {
		return &fault.Error{Kind: fault.Usage, Cause: cluster.CauseMemberNotFound, Op: op,
			Msg: "--metrics-url names no member: " + strings.Join(bad, ", ")}
	}
	return nil
}
