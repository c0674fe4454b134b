package ops

import (
	"fmt"
	"slices"

	"kvd/pkg/ops/cluster"
)

// Finding is something about a quota that a person should know, with what to do.
type Finding struct {
	Cause   string `json:"cause"` // stable, for scripts
	Member  string `json:"member,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Causes of findings.
const (
	FindQuotaDiffers  = "quota_differs"
	FindQuotaAbove    = "quota_above_8gib"
	FindQuotaDisabled = "quota_disabled"
	FindQuotaUnknown  = "quota_unknown"
	FindNoSpace       = "nospace"
	FindNoSpaceRules  = "nospace_rules" // what works while it is raised
	FindNoSpaceProbe  = "nospace_probe" // what a probe sees
	FindCorrupt       = "corrupt"
	FindNearlyFull    = "nearly_full"
	FindNestedPuts    = "nested_puts_bypass_quota"
	FindHistory       = "history_fills_file"
	FindFree          = "free_pages_fill_file"
	FindLive          = "live_data_fills_file"
	FindLeases        = "leases_fill_file"
	FindHeld          = "held_pages_fill_file"
	FindPartlyFilled  = "partly_filled_pages_fill_file"
	FindQuotaTiny     = "quota_below_1mib"
)

const (
	// mostly is the share of a file from which one kind of content is named as
	// what fills it.
	mostly = 0.5
	// leastQuota is the quota below which another unit was meant, in bytes.
	leastQuota = 1 << 20
	// packed is the share in use from which a file has nothing to give back by
	// defragmentation.
	packed = 0.95
	// worthSaying is the size below which what fills a file is nobody's concern
	// unless the quota is near, in bytes.
	worthSaying = 64 << 20
)

// quotaFindings lists what there is to say, the causes first.
func quotaFindings(v cluster.View, r QuotaReport, o QuotaOptions) []Finding {
	out := append([]Finding{}, slices.Concat(alarmFindings(v, o.WarnAt), nospaceFindings(v), quotaSettings(v), nestedPuts(v))...) // never null in JSON
	full := false
	for _, m := range v.Answered() {
		u, ok := m.Status.UsageRatio()
		full = full || !ok && v.HasAlarm(cluster.AlarmNoSpace) // which does not say that a file is full still
		if !ok || u < o.WarnAt {
			continue
		}
		full = true
		f := Finding{Cause: FindNearlyFull, Member: m.Name, Message: fmt.Sprintf(
			"member %s uses %.1f %% of its quota: %s of %s", m.Label(), 100*u, binary(m.Status.DBSize), binary(m.Status.EffectiveQuota()))}
		if stuck, _ := learnersHold([]cluster.Member{m}, o.WarnAt); len(stuck) > 0 {
			f.Message += ", most of which are free pages; a learner's file counts like a voter's, and a learner gives them back on no request"
			f.Hint = learnerShrink(m)
		}
		out = append(out, f)
	}
	if r.File != nil && (full || r.File.DBSize >= worthSaying) {
		out = append(out, whatFills(r)...)
	}
	return out
}

func alarmFindings(v cluster.View, warnAt float64) []Finding {
	var out []Finding
	help := "kvd alarm recover"
	if roomEverywhere(v, warnAt) {
		help = "no file is near its quota any more, and an alarm stays until it is disarmed: kvd alarm disarm"
	}
	for _, a := range v.Alarms {
		f := Finding{Cause: FindNoSpace, Member: a.MemberName, Message: fmt.Sprintf(
			"NOSPACE is raised by %s: the cluster refuses every write that costs space", alarmOwner(a)),
			Hint: help}
		if a.Type == cluster.AlarmCorrupt {
			f = Finding{Cause: FindCorrupt, Member: a.MemberName, Message: fmt.Sprintf("CORRUPT is raised by %s: the cluster refuses writes", alarmOwner(a)),
				Hint: "find out which member differs before anything else: see kvd alarm list"}
		}
		out = append(out, f)
	}
	return out
}

// roomEverywhere reports that every member answers and is below a share of its quota.
func roomEverywhere(v cluster.View, share float64) bool {
	return len(v.Silent()) == 0 && !slices.ContainsFunc(v.Answered(), func(m cluster.Member) bool {
		u, ok := m.Status.UsageRatio()
		return m.Status.EffectiveQuota() != cluster.QuotaDisabled && (!ok || u >= share)
	})
}

// quotaSettings judges the members' flags. One quota that differs from the rest
// is a root cause: the smallest holds for all.
func quotaSettings(v cluster.View) []Finding {
	var out []Finding
	usual := usualQuota(v)
	for _, m := range v.Answered() {
		q := m.Status.EffectiveQuota()
		switch {
		case q == cluster.QuotaUnknown:
			out = append(out, Finding{Cause: FindQuotaUnknown, Member: m.Name, Message: fmt.Sprintf(
				"member %s (etcd %s) %s", m.Label(), m.Status.Version, quotaUnread),
				Hint: "say it with --quota SIZE: it is the member's --quota-backend-bytes, 2 GiB if that is not set"})
			continue
		case q == cluster.QuotaDisabled:
			out = append(out, Finding{Cause: FindQuotaDisabled, Member: m.Name, Message: fmt.Sprintf(
				"member %s has its quota disabled: its file grows until the disk is full, which ends the member instead of only its writes", m.Label()),
				Hint: "set --quota-backend-bytes to a size that the disk has room for twice (defrag needs a copy)"})
		case q < leastQuota:
			out = append(out, Finding{Cause: FindQuotaTiny, Member: m.Name, Message: fmt.Sprintf(
				"member %s has a quota of %s: --quota-backend-bytes counts bytes, and an empty database takes 20 KiB", m.Label(), binary(q)),
				Hint: fmt.Sprintf("start it with the bytes that were meant, such as --quota-backend-bytes=%d for 8 GiB; then: kvd alarm disarm", suggestedMaxQuota)})
		case q > suggestedMaxQuota:
			out = append(out, Finding{Cause: FindQuotaAbove, Member: m.Name, Message: fmt.Sprintf(
				"member %s has a quota of %s; etcd suggests 8 GiB at most", m.Label(), binary(q)),
				Hint: "defrag, snapshots and a member that joins all take time in proportion to the file"})
		}
		if usual != cluster.QuotaUnknown && q != usual {
			out = append(out, Finding{Cause: FindQuotaDiffers, Member: m.Name, Message: fmt.Sprintf(
				"member %s has quota %s, not %s like the others; the effective quota of the cluster is the smallest, %s",
				m.Label(), quotaName(q), quotaName(usual), quotaName(v.EffectiveQuota())),
				Hint: alignQuota(m, usual)})
		}
	}
	return out
}

// alignQuota says how to give a member the quota of the others. None is nothing to
// take over: then these need one.
func alignQuota(m cluster.Member, usual int64) string {
	if usual == cluster.QuotaDisabled {
		return "set one --quota-backend-bytes on all members, and restart those that have another, one after the other"
	}
	return fmt.Sprintf("set --quota-backend-bytes of %s to %d, restart it, then: kvd alarm disarm (the alarm outlives restarts)", nameOrID(m), usual)
}

// usualQuota is the quota that most members have; of equally many the largest.
func usualQuota(v cluster.View) int64 {
	count := map[int64]int{}
	usual := cluster.QuotaUnknown
	for _, m := range v.Answered() {
		q := m.Status.EffectiveQuota()
		if q == cluster.QuotaUnknown {
			continue
		}
		count[q]++
	}
	for q, n := range count {
		if n > count[usual] || (n == count[usual] && q > usual) {
			usual = q
		}
	}
	return usual
}

func quotaName(q int64) string {
	if q == cluster.QuotaDisabled {
		return "none"
	}
	return binary(q)
}

// nestedPuts names servers that do not count puts in a Txn inside a Txn against
// the quota.
func nestedPuts(v cluster.View) []Finding {
	var out []Finding
	for _, m := range nestedPutsCount().without(v) {
		out = append(out, Finding{Cause: FindNestedPuts, Member: m.Name, Message: fmt.Sprintf(
			"member %s runs etcd %s, where nested puts bypass the quota: a put in a Txn inside a Txn costs nothing, and the file can grow past the quota without an alarm",
			m.Label(), m.Status.Version), Hint: "update to 3.5.33, 3.6.14, 3.7.1 or later"})
	}
	return out
}

// whatFills names what most of the file is, and what helps against it.
func whatFills(r QuotaReport) []Finding {
	f := r.File
	last := "never compacted"
	if f.LastCompact > 0 {
		last = fmt.Sprintf("last compacted to revision %d", f.LastCompact)
	}
	unsure := f.Live.Error >= mostly*float64(f.DBSize) // too little was read to tell live data from history
	switch {
	case f.Leases != nil && f.Leases.Bytes.Bytes >= mostly*float64(f.DBSize):
		return []Finding{{Cause: FindLeases, Member: f.Member, Message: fmt.Sprintf("%.0f %% of the file are %s", 100*f.Leases.Bytes.Bytes/float64(f.DBSize), f.Leases.text()),
			Hint: "`kvd alarm recover` packs them under an alarm, `kvd defrag --min-gain 0` without; " + leasesHelp}}
	case unsure && f.FreeRatio < mostly:
		return nil
	case f.HistoryRatio >= mostly:
		return []Finding{{Cause: FindHistory, Member: f.Member, Message: fmt.Sprintf(
			"%.0f %% of the file (%s) is history: %d revisions kept, %.0f for each live key; %s",
			100*f.HistoryRatio, binary(int64(f.History.Bytes)), f.Revisions, f.HistoryPerKey, last),
			Hint: "kvd compact frees it inside the file, kvd defrag then gives it back; defrag alone frees nothing. With an alarm: kvd alarm recover"}}
	case f.FreeRatio >= mostly:
		return []Finding{{Cause: FindFree, Member: f.Member, Message: fmt.Sprintf(
			"%.0f %% of the file (%s) is free pages; the quota counts the whole file", 100*f.FreeRatio, binary(f.Free)),
			Hint: "kvd defrag"}}
	case f.LiveRatio >= mostly:
		return []Finding{liveFinding(r)}
	case float64(f.Other) >= mostly*float64(f.DBSize) && f.DBSize > leastQuota:
		return []Finding{otherFinding(f)}
	}
	return nil
}

func liveFinding(r QuotaReport) Finding {
	f := r.File
	out := Finding{Cause: FindLive, Member: f.Member, Message: fmt.Sprintf("%.0f %% of the file (%s) is live data",
		100*f.LiveRatio, binary(int64(f.Live.Bytes)))}
	if f.InUseRatio >= packed && f.HistoryRatio < 1-packed {
		out.Message += fmt.Sprintf("; no reclaimable space (in use/size %.1f %%)", 100*f.InUseRatio)
	}
	if len(r.Content.Groups) > 0 {
		g := r.Content.Groups[0]
		out.Message += "; the most of it is " + groupText(g)
	}
	out.Hint = "compaction and defrag won't help: " + deleteHint(r.Content.Groups) + ", or raise --quota-backend-bytes (etcd suggests 8 GiB at most)"
	return out
}
