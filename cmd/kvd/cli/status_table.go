package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// statusTable draws a view: one line on the cluster, the members, and below them
// what each member that did not answer said instead.
func statusTable(v cluster.View) func(io.Writer) error {
	return func(w io.Writer) error {
		fmt.Fprintln(w, clusterLine(v))
		if err := v.OneCluster(""); err != nil {
			fmt.Fprintf(w, "NOT ONE CLUSTER: %s; shown is %s\n", render.Safe(fault.Why(err)), cluster.FormatID(v.ID))
		}
		if err := statusColumns(v).Write(w, v.Members); err != nil {
			return err
		}
		for _, m := range v.Silent() {
			drawTrouble(w, m.Label(), m.Err)
		}
		for _, u := range v.Unreached {
			drawTrouble(w, "endpoint "+u.Endpoint, u.Err)
		}
		drawAlarmLines(w, v)
		for _, n := range v.Notes {
			fmt.Fprintf(w, "note: %s\n", render.Safe(n))
		}
		return nil
	}
}

// drawTrouble says why somebody did not answer, and what to do about it.
func drawTrouble(w io.Writer, who string, err error) {
	fmt.Fprintf(w, "%s: %s\n", render.Safe(who), render.Safe(fault.Why(err)))
	if hint := fault.HintOf(err); hint != "" {
		fmt.Fprintf(w, "  hint: %s\n", render.Safe(hint))
	}
}

func clusterLine(v cluster.View) string {
	leader := "no leader"
	if m, ok := v.LeaderMember(); ok {
		leader = "leader " + m.Label()
	} else if v.Leader != 0 {
		leader = "leader " + cluster.FormatID(v.Leader)
	}
	learners := ""
	if n := len(v.Learners()); n > 0 {
		learners = ", " + count(n, "learner")
	}
	if !v.VotersKnown() {
		return render.Safe(fmt.Sprintf("cluster %s: the voters are not known (asked: %s), %s", cluster.FormatID(v.ID), count(len(v.Members), "member"), leader))
	}
	bears := fmt.Sprintf("quorum %d, %s tolerated", v.Quorum(), count(v.FailuresTolerated(), "more failure"))
	if lost := ops.QuorumLost(v); lost != "" {
		bears = lost // and nothing can be written, whoever leads
	} else if v.Commits { // and the note below says how that is known
		bears = fmt.Sprintf("quorum %d, which is there though it is not reached from here", v.Quorum())
	}
	return render.Safe(fmt.Sprintf("cluster %s: %s%s, %s, %s",
		cluster.FormatID(v.ID), count(len(v.Voters()), "voter"), learners, bears, leader))
}

func drawAlarmLines(w io.Writer, v cluster.View) {
	for _, a := range v.Alarms {
		owner := a.MemberName
		if !a.InMemberList {
			owner = cluster.FormatID(a.MemberID) + ", which is not in the member list"
		}
		what := "every member is read-only: see `kvd quota`, then `kvd alarm recover`"
		switch {
		case a.Type == cluster.AlarmCorrupt:
			what = "members hold different data: take a snapshot of the majority before anything else"
		case v.HasAlarm(cluster.AlarmCorrupt): // under which etcd takes no compaction
			what = "every member is read-only: `kvd alarm recover` goes once CORRUPT is mended and disarmed"
		}
		fmt.Fprintf(w, "alarm %s of %s: %s\n", a.Type, render.Safe(owner), what)
	}
}

func statusColumns(v cluster.View) render.Columns[cluster.Member] {
	type column = render.Column[cluster.Member]
	known := func(f func(*cluster.Status) string) func(cluster.Member) string {
		return func(m cluster.Member) string {
			if m.Status == nil {
				return "-"
			}
			return f(m.Status)
		}
	}
	return render.Columns[cluster.Member]{
		{Header: "name", Value: nameOrNone},
		{Header: "id", Value: func(m cluster.Member) string { return cluster.FormatID(m.ID) }},
		{Header: "endpoint", Value: func(m cluster.Member) string { return m.Endpoint }},
		{Header: "role", Value: func(m cluster.Member) string { return v.Role(m) }},
		column{Header: "version", Value: known(func(s *cluster.Status) string { return s.Version })},
		column{Header: "storage", Value: known(func(s *cluster.Status) string { return orDash(s.StorageVersion) })},
		column{Header: "db size", Right: true, Value: known(func(s *cluster.Status) string { return sizeText(s.DBSize) })},
		column{Header: "in use", Right: true, Value: known(func(s *cluster.Status) string { return sizeText(s.DBInUse) })},
		column{Header: "free", Right: true, Value: known(func(s *cluster.Status) string { return sizeText(s.DBSize - s.DBInUse) })},
		column{Header: "quota", Right: true, Value: known(quotaText)},
		column{Header: "used", Right: true, Value: known(usageText)},
		column{Header: "raft index", Right: true, Value: known(func(s *cluster.Status) string { return strconv.FormatUint(s.RaftIndex, 10) })},
		column{Header: "applied", Right: true, Value: known(func(s *cluster.Status) string { return strconv.FormatUint(s.AppliedIndex, 10) })},
		{Header: "lag", Right: true, Value: func(m cluster.Member) string {
			if m.Status == nil {
				return "-"
			}
			return strconv.FormatUint(v.Lag(m), 10)
		}},
		{Header: "alarms", Value: func(m cluster.Member) string { return orDash(strings.Join(v.AlarmsOf(m.ID), ",")) }},
		{Header: "answers", Value: func(m cluster.Member) string {
			if m.Status != nil {
				return "yes"
			}
			return fault.CauseOf(m.Err)
		}},
	}
}

// nameOrNone is the member's name, which it has from its first start on.
func nameOrNone(m cluster.Member) string {
	if m.Name == "" && !m.Started() {
		return "(unstarted)"
	}
	return orDash(m.Name)
}

func quotaText(s *cluster.Status) string {
	switch q := s.EffectiveQuota(); {
	case q == cluster.QuotaUnknown:
		return "not told"
	case q == cluster.QuotaDisabled:
		return "none"
	case s.QuotaAssumed:
		return sizeText(q) + " (assumed)"
	default:
		return sizeText(q)
	}
}

func usageText(s *cluster.Status) string {
	r, ok := s.UsageRatio()
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*r)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
