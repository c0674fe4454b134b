package diagnose

import (
	"fmt"

	"kvd/pkg/ops/metrics"
)

// checkMemory looks for a sudden growth: an answer is held in memory as a whole, so
// that full lists by several clients at once are what ends etcd on a machine that
// has just enough.
func checkMemory() Check {
	return Check{
		Name: "memory", Asks: "does memory stay where it is?", IDs: []string{"KVD-MEM-001"}, Needs: []Need{NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			most, measured := -1.0, ""
			for _, d := range in.deltas() {
				now, ok := d.To.Value(metrics.ResidentMemory, nil)
				was, okBefore := d.From.Value(metrics.ResidentMemory, nil)
				if !ok || !okBefore {
					continue
				}
				db, _ := d.To.Value(metrics.DBSize, nil)
				if now > most {
					most, measured = now, fmt.Sprintf("the most has %s: %s, with a file of %s", name(d.Member), size(int64(now)), size(int64(db)))
				}
				if now-was < in.Limits.MemoryGrowth {
					continue
				}
				out = append(out, Finding{ID: "KVD-MEM-001", Severity: Warning, Subject: name(d.Member),
					Summary:     fmt.Sprintf("the memory of %s grew by %s in %s, to %s", name(d.Member), size(int64(now-was)), Seconds.Show(d.Elapsed().Seconds()), size(int64(now))),
					Evidence:    []Evidence{sampled(d.Member, d.From, "resident, before", was, Bytes), sampled(d.Member, d.To, "resident, now", now, Bytes), sampled(d.Member, d.To, "file", db, Bytes)},
					Remedy:      []string{"find who lists everything at once, and page it", "give the machine room for several whole answers beside the file"},
					ExplainedBy: []string{"KVD-READ-001", "KVD-WATCH-001"}})
			}
			return out, measured
		},
	}
}
