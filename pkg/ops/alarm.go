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
	"kvd/pkg/ops/wait"
)

// DisarmOptions says which alarms to disarm.
type DisarmOptions struct {
	Member string // name or hexadecimal ID, also of a member that was removed; empty: every member
	Type   string // cluster.AlarmNoSpace or cluster.AlarmCorrupt
	Force  bool   // also where the alarm would come straight back, or where it says CORRUPT
}

// DefaultDisarmOptions returns what `kvd alarm disarm` does when told nothing:
// NOSPACE only. CORRUPT has to be asked for by name.
func DefaultDisarmOptions() DisarmOptions { return DisarmOptions{Type: cluster.AlarmNoSpace} }

// disarmSeen is how long to wait until no member reports a disarmed alarm.
const disarmSeen = 10 * time.Second

// PlanDisarm plans to disarm exactly the alarms that are raised and were asked
// for, one by one.
func PlanDisarm(client *cluster.Client, view cluster.View, o DisarmOptions) (*plan.Plan, error) {
	if err := view.VotersErr("alarm disarm"); err != nil {
		return nil, err
	}
	alarms, err := selectAlarms(view, o)
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{Op: "alarm disarm"}
	for _, a := range view.Alarms {
		if !slices.Contains(alarms, a) {
			p.Notes = append(p.Notes, fmt.Sprintf("left alone: %s of %s", a.Type, alarmOwner(a)))
		}
	}
	if o.Type == cluster.AlarmCorrupt && len(alarms) > 0 {
		p.Notes = append(p.Notes, "CORRUPT means that members hold different data: disarming it repairs nothing")
	}
	for _, a := range alarms {
		p.Steps = append(p.Steps, disarmStep(client, a, disarmGuard(client, view, a, o)))
	}
	return p, nil
}

// selectAlarms returns the raised alarms that match.
func selectAlarms(view cluster.View, o DisarmOptions) ([]cluster.Alarm, error) {
	match := func(cluster.Alarm) bool { return true }
	if o.Member != "" {
		id, err := cluster.ParseID(o.Member)
		if m, ferr := view.FindMember(o.Member); ferr == nil {
			id, err = m.ID, nil
		} else if err != nil {
			return nil, ferr
		}
		match = func(a cluster.Alarm) bool { return a.MemberID == id }
	}
	var out []cluster.Alarm
	for _, a := range view.Alarms {
		if a.Type == o.Type && match(a) {
			out = append(out, a)
		}
	}
	return out, nil
}

// disarmStep clears one alarm and sees to it that every member has let go of it.
func disarmStep(client *cluster.Client, a cluster.Alarm, guard func(context.Context) error) plan.Step {
	return plan.Step{
		StepResult: plan.StepResult{Subject: alarmOwner(a), Action: "disarm " + a.Type},
		Guard:      guard,
		Do: func(ctx context.Context, r *plan.StepResult) error {
			quorum, err := client.Quorum(ctx)
			if err != nil {
				return err
			}
			if _, err := quorum.AlarmDisarm(ctx, a.MemberID, a.Type); err != nil {
				return err
			}
			if err := waitDisarmed(ctx, client, a); err != nil {
				return err
			}
			r.Reason = "no member reports it any more"
			return nil
		},
	}
}

// disarmGuard refuses a disarm that would not hold.
func disarmGuard(client *cluster.Client, recorded cluster.View, a cluster.Alarm, o DisarmOptions) func(context.Context) error {
	return func(ctx context.Context) error {
		view, err := client.VotersView(ctx)
		if err != nil {
			return err
		}
		view = assumeLike(view, recorded)
		if !raised(view, a) {
			return plan.Skip("not raised any more")
		}
		if err := canCommit(view, "alarm disarm"); err != nil {
			return err
		}
		if o.Force {
			return nil
		}
		if a.Type == cluster.AlarmCorrupt {
			return &fault.Error{Kind: fault.Refused, Cause: cluster.CauseCorrupt, Op: "alarm disarm", Subject: alarmOwner(a),
				Msg: "members hold different data, and after a disarm clients would write on top of that",
				Hint: "first take a snapshot of a member of the majority, then remove the corrupt member and add it again " +
					"with an empty data dir; --force disarms all the same"}
		}
		return comesBack(view, a)
	}
}

// comesBack refuses to disarm NOSPACE where the next small write would raise it
// again, on whichever member that write goes through, or where that is not known.
func comesBack(view cluster.View, a cluster.Alarm) error {
	var why []string
	var silent *cluster.Member
	hint := "`kvd alarm disarm --force` disarms all the same"
	for _, m := range view.Members {
		switch {
		case m.Status == nil && m.ID == a.MemberID && a.InMemberList:
			silent = &m
		case m.Status == nil:
		case m.Status.EffectiveQuota() == cluster.QuotaUnknown:
			return &fault.Error{Kind: fault.Refused, Cause: "quota_unknown", Op: "alarm disarm", Subject: m.Label(),
				Msg:  fmt.Sprintf("etcd %s %s, so that nobody can say whether the alarm would come back", m.Status.Version, quotaUnread),
				Hint: "give the server's --quota-backend-bytes with --quota, or --force"}
		case !fits(m.Status, smallWrite):
			why = append(why, fmt.Sprintf("%s: file %s of a quota of %s, %s of it in use; %s", m.Label(),
				binary(m.Status.DBSize), binary(m.Status.EffectiveQuota()), binary(m.Status.DBInUse), whatHelps(m)))
			if !m.Learner {
				hint = "`kvd alarm recover` does what is missing and disarms then; `kvd alarm disarm --force` disarms all the same"
			}
		}
	}
	switch {
	case len(why) > 0:
		return &fault.Error{Kind: fault.Refused, Cause: "would_come_back", Op: "alarm disarm", Subject: alarmOwner(a),
			Msg:  "the next write would raise the alarm again: " + strings.Join(why, "; "),
			Hint: hint}
	case silent != nil:
		return &fault.Error{Kind: fault.Refused, Cause: "size_unknown", Op: "alarm disarm", Subject: alarmOwner(a),
			Msg:  "it raised the alarm and does not answer, so that nobody can say whether the next write would raise it again: " + fault.Why(silent.Err),
			Hint: silentHelp(view, *silent) + ", then run the same again; `kvd alarm disarm --force` disarms all the same"}
	}
	return nil
}

// silentHelp says what to do about a member that does not answer.
func silentHelp(view cluster.View, m cluster.Member) string {
	switch {
	case view.Commits && cluster.IsBusy(m.Err):
		return "wait until it answers, as it does once a defragmentation has ended"
	case view.Commits:
		return "give --endpoints that lead to it"
	}
	return "bring it back first (`kvd status` says what it lacks)"
}

// mostlyUsed is the share of the quota in use from which a defragmentation alone
// would leave a file that is full again at once.
const mostlyUsed = 0.9

// whatHelps says what would bring a member's file below its quota.
func whatHelps(m cluster.Member) string {
	free := float64(m.Status.DBInUse) < mostlyUsed*float64(m.Status.EffectiveQuota())
	switch {
	case free && m.Learner:
		return "the quota counts the file with its free pages, which a learner gives back on no request: " + learnerShrink(m)
	case free:
		return "the quota counts the file with its free pages: defrag this member first"
	}
	return "defrag alone would free next to nothing: compact first if it is history (`kvd quota` tells), then defrag; " +
		"else delete keys (kvd keys delete) or raise the quota"
}

// canCommit refuses what needs a proposal where none can be committed.
func canCommit(view cluster.View, op string) error {
	if err := view.VotersErr(op); err != nil {
		return err
	}
	lost := QuorumLost(view)
	if lost == "" && view.Leader != 0 {
		return nil
	}
	if lost == "" {
		lost = "no member knows a leader"
	}
	return &fault.Error{Kind: fault.Unavailable, Cause: "no_quorum", Op: op, Msg: lost + ": nothing can be committed",
		Hint: "bring voters back first; `kvd status` says why each does not answer"}
}

func waitDisarmed(ctx context.Context, client *cluster.Client, a cluster.Alarm) error {
	ctx, cancel := context.WithTimeout(ctx, disarmSeen)
	defer cancel()
	for {
		view, err := client.VotersView(ctx)
		if err == nil && !raised(view, a) {
			return nil
		}
		if werr := wait.For(ctx, settlePoll); werr != nil {
			if err == nil {
				err = &fault.Error{Kind: fault.Unavailable, Cause: "still_raised", Op: "alarm disarm", Subject: alarmOwner(a),
					Msg:  fmt.Sprintf("a member still reports it %s after it was disarmed", disarmSeen),
					Hint: "something raises it again: look at `kvd quota`"}
			}
			return err
		}
	}
}

func raised(view cluster.View, a cluster.Alarm) bool {
	return slices.ContainsFunc(view.Alarms, func(b cluster.Alarm) bool { return b.MemberID == a.MemberID && b.Type == a.Type })
}

func alarmOwner(a cluster.Alarm) string {
	id := cluster.FormatID(a.MemberID)
	switch {
	case !a.InMemberList:
		return id + " (not in the member list)"
	case a.MemberName == "":
		return id
	}
	return fmt.Sprintf("%s (%s)", a.MemberName, id)
}

// assumeLike gives a fresh view the quotas that are known, by their metrics or from the
// user, of members whose status does not tell theirs.
func assumeLike(view, recorded cluster.View) cluster.View {
	view = view.QuotasLike(recorded)
	for _, m := range recorded.Members {
		if m.Status != nil && m.Status.QuotaAssumed {
			return view.AssumeQuota(m.Status.Quota)
		}
	}
	return view
}
