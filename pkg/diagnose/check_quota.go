package diagnose

import (
	"fmt"
	"slices"

	"kvd/pkg/ops/cluster"
)

// checkQuota compares each file with its member's own quota. The first to reach
// its own makes the whole cluster read-only.
func checkQuota() Check {
	return Check{
		Name: "quota", Asks: "has every file room below its quota?", IDs: []string{"KVD-SPACE-002"}, Needs: []Need{NeedStatus},
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			var out []Finding
			fullest, at := "no member has a quota that is known", -1.0
			for _, m := range v.Answered() {
				used, ok := m.Status.UsageRatio()
				if !ok {
					continue
				}
				if used > at {
					at, fullest = used, fmt.Sprintf("the fullest is %s: %s of %s", name(m), percent(used), size(m.Status.EffectiveQuota()))
				}
				if used < in.Limits.QuotaWarning || slices.Contains(v.AlarmsOf(m.ID), cluster.AlarmNoSpace) { // the alarm says it
					continue
				}
				f := Finding{ID: "KVD-SPACE-002", Severity: Warning, Subject: name(m),
					Summary: fmt.Sprintf("the file of %s is at %s of its quota; at 100 %% the whole cluster is read-only", name(m), percent(used)),
					Evidence: []Evidence{status(m, "file", float64(m.Status.DBSize), Bytes), status(m, "in use", float64(m.Status.DBInUse), Bytes),
						status(m, "quota", float64(m.Status.EffectiveQuota()), Bytes)},
					Remedy:      in.makeRoom(m),
					ExplainedBy: in.explainFull([]string{"KVD-SPACE-003", "KVD-SPACE-004", "KVD-SPACE-005", "KVD-SPACE-007"}, m)}
				if used >= in.Limits.QuotaCritical {
					f.Severity = Critical
				}
				out = append(out, f)
			}
			return out, fullest
		},
	}
}

// worthwhile is the share of a file from which on it helps to take it away.
const worthwhile = 0.1

// makeRoom is what gets a file below its quota, by what fills it: history goes with a
// compaction, free pages with a defragmentation, and live data with neither.
func (in *Input) makeRoom(m cluster.Member) []string {
	out := []string{"kvd quota"}
	of := func(n int64) float64 { return float64(n) / float64(max(1, m.Status.DBSize)) }
	c, known := in.content()
	switch free := of(m.Status.DBSize - m.Status.DBInUse); {
	case m.Learner && free >= worthwhile:
		return append(out, learnerRoom(m)...)
	case !known:
		return append(out, "kvd compact --dry-run  # how much is history", "kvd defrag --dry-run  # how much is free")
	case of(c.history) >= worthwhile:
		out = append(out, c.compact(), "kvd defrag")
	case free >= worthwhile:
		out = append(out, "kvd defrag --dry-run", "kvd defrag")
	}
	if of(c.live) < in.Limits.ShareRatio {
		return out
	}
	return append(out, "kvd keys usage  # what fills it: live data, which neither a compaction nor a defragmentation takes away",
		"kvd keys delete --prefix PREFIX --older-than 720h --dry-run  # of what is not needed", "or start the members with a larger --quota-backend-bytes; etcd suggests 8 GiB at most")
}

// learnerRoom is what gets rid of the free pages of a learner's file, which counts like
// a voter's: a learner refuses the request for a defragmentation (isRPCSupportedForLearner
// in server/etcdserver/api/v3rpc/util.go).
func learnerRoom(m cluster.Member) []string {
	return []string{"kvd member promote " + name(m) + "  # a learner refuses to be defragmented, a voter does not; then kvd defrag",
		"or restart it with --bootstrap-defrag-threshold-megabytes=1 (--experimental-bootstrap-defrag-threshold-megabytes of etcd 3.5)",
		"kvd member remove " + name(m) + "  # if it is not wanted"}
}

// checkQuotaSettings judges the members' flags.
func checkQuotaSettings() Check {
	return Check{
		Name: "quota settings", Asks: "is the quota the same everywhere, and sane?", IDs: []string{"KVD-SPACE-003", "KVD-SPACE-008"}, Needs: []Need{NeedStatus},
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			usual, known := usualQuota(v)
			if !known {
				return nil, "etcd before 3.6 does not tell its quota"
			}
			var out []Finding
			for _, m := range v.Answered() {
				q := m.Status.EffectiveQuota()
				if q == cluster.QuotaUnknown {
					continue
				}
				e := []Evidence{status(m, "quota of "+name(m), float64(q), Bytes), status(m, "quota of the others", float64(usual), Bytes)}
				if q != usual {
					sev := Warning
					if slices.Contains(v.AlarmsOf(m.ID), cluster.AlarmNoSpace) {
						sev = Critical
					}
					out = append(out, Finding{ID: "KVD-SPACE-003", Severity: sev, Subject: name(m), Evidence: e,
						Summary: fmt.Sprintf("%s has a quota of %s and the others %s: the smallest, %s, holds for all", name(m), quotaWord(q), quotaWord(usual), quotaWord(v.EffectiveQuota())),
						Remedy: []string{fmt.Sprintf("start %s with --quota-backend-bytes=%d like the others", name(m), usual),
							"kvd alarm disarm  # if NOSPACE was raised: the alarm outlives the restart"}})
				}
				if over := q == cluster.QuotaDisabled || float64(q) > in.Limits.QuotaSuggested; over && q == usual {
					out = append(out, Finding{ID: "KVD-SPACE-008", Severity: Info, Subject: name(m), Evidence: e[:1],
						Summary: fmt.Sprintf("the quota of %s is %s; etcd suggests %s at most", name(m), quotaWord(q), size(int64(in.Limits.QuotaSuggested))),
						Remedy:  []string{"set --quota-backend-bytes to what the disk has room for twice: a defragmentation makes a copy"}})
				}
			}
			return out, quotaWord(usual) + " on every member that tells it"
		},
	}
}

// usualQuota is what most members have; of equally many the largest.
func usualQuota(v cluster.View) (usual int64, known bool) {
	count := map[int64]int{}
	for _, m := range v.Answered() {
		if q := m.Status.EffectiveQuota(); q != cluster.QuotaUnknown {
			count[q]++
		}
	}
	for q, n := range count {
		if n > count[usual] || n == count[usual] && q > usual {
			usual = q
		}
	}
	return usual, len(count) > 0
}

func quotaWord(q int64) string {
	if q == cluster.QuotaDisabled {
		return "switched off"
	}
	return size(q)
}
