package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/metrics"
)

// latency is a percentile of one member between the samples.
type latency struct {
	d        memberDelta
	n        uint64
	over     uint64 // observations above the limit, as far as the bounds tell
	limit    float64
	p50, p99 float64
}

// slow reports that the p99 is at the limit, and that it does not rest on a few: of
// few observations the slowest alone makes it.
func (l latency) slow(in *Input) bool {
	return l.p99 >= l.limit && float64(l.over) >= in.Limits.SlowMin
}

// latencies reads a histogram of all members. Those with too few observations are
// left out: their percentiles say nothing.
func (in *Input) latencies(name string) []latency {
	var out []latency
	limit := in.Limits.FsyncP99
	if name == metrics.BackendCommit {
		limit = in.Limits.CommitP99
	}
	for _, d := range in.deltas() {
		h, ok := d.Histogram(name, nil)
		if ok && float64(h.Count) >= in.Limits.Observations {
			out = append(out, latency{d, h.Count, h.Count - quick(h, limit), limit, h.Quantile(0.5), h.Quantile(0.99)})
		}
	}
	return out
}

func (l latency) evidence(what string) []Evidence {
	return []Evidence{l.d.evidence("p99 of "+what, l.p99, Seconds), l.d.evidence("p50 of "+what, l.p50, Seconds), l.d.evidence("observations", float64(l.n), Count), l.d.evidence("of them above "+Seconds.Show(l.limit), float64(l.over), Count)}
}

// peersP99 is the middle one of the others' p99, 0 where there are none.
func peersP99(all []latency, of latency) float64 {
	var others []float64
	for _, l := range all {
		if l.d.Member.ID != of.d.Member.ID {
			others = append(others, l.p99)
		}
	}
	if len(others) == 0 {
		return 0
	}
	slices.Sort(others)
	return others[len(others)/2]
}

// checkDisk looks at how long the log's fsync takes. Each acknowledged write waits
// for one on a quorum of members.
func checkDisk() Check {
	return Check{
		Name: "disk", Asks: "do the logs reach the disks in time?", IDs: []string{"KVD-DISK-001"}, Needs: []Need{NeedFsyncs},
		Look: func(in *Input) ([]Finding, string) {
			all := in.latencies(metrics.WALFsync)
			var out []Finding
			for _, l := range all {
				if !l.slow(in) {
					continue
				}
				out = append(out, slowDisk(in, l, all))
			}
			return out, slowest(all, "WAL fsync")
		},
	}
}

// slowDisk tells of one that is slow, of all that were looked at.
func slowDisk(in *Input, l latency, all []latency) Finding {
	who := name(l.d.Member)
	f := Finding{ID: "KVD-DISK-001", Severity: Warning, Subject: who, Evidence: l.evidence("WAL fsync"),
		Summary: fmt.Sprintf("the disk of %s is slow: WAL fsync p99 %s, and etcd needs it below %s", who, Seconds.Show(l.p99), Seconds.Show(in.Limits.FsyncP99)),
		Remedy:  []string{"kvd diagnose --disk DIR  # on its machine: measures the disk itself", "give etcd a disk of its own (an SSD); see what else writes there"}}
	slow, missing := slowVoters(in)
	switch leads := in.view().Leader; {
	case missing > 0: // a move of the leader would change nothing
		f.Evidence = append(f.Evidence, Evidence{What: "voters with a slow disk", Value: float64(slow), Unit: Count, Source: "metrics of all", At: in.At})
		f.Remedy = append(f.Remedy, fmt.Sprintf("each write waits for a slow disk, whoever leads: to replace %d of the %d is enough", missing, slow))
	case leads == 0: // as by metrics alone
		f.Remedy = append(f.Remedy, "kvd member move-leader  # if it leads")
	case leads == l.d.Member.ID && len(in.view().Voters()) > 1:
		f.Remedy = append(f.Remedy, "kvd member move-leader  # since it leads")
	}
	if peers := peersP99(all, l); peers > 0 {
		ratio := l.p99 / peers
		f.Evidence = append(f.Evidence, l.d.evidence("times the p99 of its peers", ratio, Times))
		if ratio >= in.Limits.DiskRatio && peers < in.Limits.FsyncP99 {
			f.Summary = fmt.Sprintf("the disk of %s is slow, and only its: WAL fsync p99 %s, %.0f times that of its peers (%s)", who, Seconds.Show(l.p99), ratio, Seconds.Show(peers))
		}
	}
	for _, name := range []string{"etcd_server_heartbeat_send_failures_total", "etcd_server_leader_changes_seen_total"} {
		if n, ok := l.d.Counter(name, nil); ok && n > 0 {
			f.Evidence = append(f.Evidence, l.d.evidence(name, n, Count))
		}
	}
	return f
}

// slowVoters counts the voters with a slow disk, of several, and how many of these are
// missing for a quorum of quick ones: a write is acknowledged when a quorum has it on
// disk, be the leader among them or not.
func slowVoters(in *Input) (slow, missing int) {
	voters := in.view().Voters()
	if len(voters) < 2 {
		return 0, 0
	}
	for _, v := range voters {
		if in.slow(metrics.WALFsync, v) {
			slow++
		}
	}
	return slow, max(0, in.view().Quorum()-(len(voters)-slow))
}

// checkCommit looks at how long a commit of the backend takes. Reads and applies
// wait for it.
func checkCommit() Check {
	return Check{
		Name: "backend commits", Asks: "do the databases reach the disks in time?", IDs: []string{"KVD-DISK-002"}, Needs: []Need{NeedCommits},
		Look: func(in *Input) ([]Finding, string) {
			all := in.latencies(metrics.BackendCommit)
			var out []Finding
			for _, l := range all {
				if !l.slow(in) {
					continue
				}
				who := name(l.d.Member)
				f := Finding{ID: "KVD-DISK-002", Severity: Warning, Subject: who, Evidence: l.evidence("backend commit"),
					Summary: fmt.Sprintf("commits of the database of %s are slow: p99 %s, and etcd needs it below %s", who, Seconds.Show(l.p99), Seconds.Show(in.Limits.CommitP99)),
					Remedy:  []string{"kvd diagnose --disk DIR  # on its machine", "kvd wal stats DATA-DIR  # who writes much at once"}}
				if in.slow(metrics.WALFsync, l.d.Member) {
					f.ExplainedBy = []string{"KVD-DISK-001"}
				}
				out = append(out, f)
			}
			return out, slowest(all, "commit")
		},
	}
}

// slow reports that a member is slow by a histogram.
func (in *Input) slow(name string, m cluster.Member) bool {
	return slices.ContainsFunc(in.latencies(name), func(l latency) bool { return l.d.Member.ID == m.ID && l.slow(in) })
}

// slowest tells of the worst of them; there is at least one.
func slowest(all []latency, what string) string {
	worst := slices.MaxFunc(all, func(a, b latency) int { return cmp.Compare(a.p99, b.p99) })
	return fmt.Sprintf("the slowest %s p99 is %s, of %s", what, Seconds.Show(worst.p99), name(worst.d.Member))
}
