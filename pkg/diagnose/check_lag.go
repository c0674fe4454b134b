package diagnose

import (
	"fmt"

	"kvd/pkg/ops/cluster"
)

// refuseGap is the gap above which etcd refuses requests
// (maxGapBetweenApplyAndCommitIndex in server/etcdserver/v3_server.go).
const refuseGap = 5000

// checkLag compares indexes: what a member has not heard of yet, and what it has
// not applied yet. One look may fall between two answers; only what both show
// counts.
func checkLag() Check {
	return Check{
		Name: "lag", Asks: "do all members keep up?", IDs: []string{"KVD-RAFT-004", "KVD-RAFT-005"}, Needs: []Need{NeedTwo},
		Blind: func(in *Input) []Missing {
			if in.Recorded {
				return nil // of whom there are metrics they are compared
			}
			return votersUnknown(in)
		},
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			var out []Finding
			furthest := ""
			worst := int64(-1)
			for _, m := range v.Answered() {
				old, ok := in.before(m.ID)
				if !ok || m.Learner {
					continue
				}
				lag, lagBefore := behind(v, m), behind(in.Before.View, old)
				gap, gapBefore := unapplied(m), unapplied(old)
				if w := max(lag, gap); w > worst {
					worst, furthest = w, fmt.Sprintf("%s is the furthest behind, by %s", name(m), entries(w))
				}
				if float64(min(lag, lagBefore)) >= in.Limits.LagEntries {
					f := lagging(m, lag, lagBefore)
					if e, by, starved := in.snapshotFails(m); starved {
						f.Evidence, f.Remedy = append(f.Evidence, e), append(reachForSnapshot(m, by), f.Remedy...)
					}
					out = append(out, f)
				}
				if float64(min(gap, gapBefore)) >= in.Limits.ApplyGap {
					out = append(out, notApplying(m, gap, gapBefore))
				}
			}
			return out, furthest
		},
	}
}

// behind is how many entries are committed that the member does not know of.
func behind(v cluster.View, m cluster.Member) int64 {
	var head uint64
	for _, o := range v.Answered() {
		head = max(head, o.Status.RaftIndex)
	}
	return int64(head - min(head, m.Status.RaftIndex)) //nolint:gosec // far below 2^63
}

// unapplied is how many entries the member knows to be committed and has not applied.
func unapplied(m cluster.Member) int64 {
	return int64(m.Status.RaftIndex - min(m.Status.RaftIndex, m.Status.AppliedIndex)) //nolint:gosec // far below 2^63
}

func lagging(m cluster.Member, now, before int64) Finding {
	f := Finding{ID: "KVD-RAFT-004", Severity: Warning, Subject: name(m),
		Summary:     fmt.Sprintf("%s has not received %s that the others have committed", name(m), entries(now)),
		Evidence:    []Evidence{status(m, "entries missing, before", float64(before), Count), status(m, "entries missing, now", float64(now), Count)},
		Remedy:      []string{"see its disk, its network and its log; what reads from it gets old data", "a defragmentation, a removal of a member and a move of the leadership refuse meanwhile, and should"},
		ExplainedBy: []string{"KVD-DISK-001", "KVD-NET-003"}}
	if now < before {
		f.Severity, f.Summary = Info, f.Summary+", and is catching up"
	}
	return f
}

func notApplying(m cluster.Member, now, before int64) Finding {
	f := Finding{ID: "KVD-RAFT-005", Severity: Warning, Subject: name(m),
		Summary:     fmt.Sprintf("%s has %s committed and not applied; at %d it refuses requests (\"too many requests\")", name(m), entries(now), refuseGap),
		Evidence:    []Evidence{status(m, "not applied, before", float64(before), Count), status(m, "not applied, now", float64(now), Count)},
		Remedy:      []string{"find what its apply loop is busy with: large deletes or transactions, a compaction, a revoked lease with many keys", "slow down whoever writes"},
		ExplainedBy: []string{"KVD-DISK-002", "KVD-LEASE-001", "KVD-READ-001"}}
	if now > refuseGap {
		f.Severity = Critical
	}
	return f
}

func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return Count.Show(float64(n)) + " entries"
}
