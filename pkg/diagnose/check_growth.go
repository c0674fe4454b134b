package diagnose

import (
	"fmt"

	"kvd/pkg/ops/cluster"
)

// growthMin is the growth below which a rate is noise: sizes move by pages at each
// commit. In bytes.
const growthMin = 1 << 20

// checkGrowth says how long there is until the quota, at the rate between the
// samples. Writes use free pages before the file grows, so that it is the pages in
// use that grow towards the quota.
func checkGrowth() Check {
	return Check{
		Name: "growth", Asks: "will the quota hold?", IDs: []string{"KVD-SPACE-006"}, Needs: []Need{NeedTwo},
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			if v.HasAlarm(cluster.AlarmNoSpace) {
				return nil, "NOSPACE is raised"
			}
			measured := "no file grows"
			var out []Finding
			for _, m := range v.Answered() {
				old, ok := in.before(m.ID)
				q := m.Status.EffectiveQuota()
				secs := m.At.Sub(old.At).Seconds()
				if !ok || q <= 0 || secs <= 0 {
					continue
				}
				grown := m.Status.DBInUse - old.Status.DBInUse
				if grown < growthMin {
					continue
				}
				rate := float64(grown) / secs
				left := max(0, float64(q-m.Status.DBInUse)/rate)
				measured = fmt.Sprintf("%s grows by %s/s; at that it has room for %s", name(m), size(int64(rate)), Seconds.Show(left))
				used := float64(m.Status.DBInUse) / float64(q)
				if left > in.Limits.FullWithin || used < in.Limits.GrowthUsage && secs < in.Limits.GrowthLook {
					continue // a burst, and far from the quota
				}
				f := Finding{ID: "KVD-SPACE-006", Severity: Warning, Subject: name(m),
					Summary: fmt.Sprintf("%s reaches its quota in %s if it goes on growing like in the last %s", name(m), Seconds.Show(left), Seconds.Show(secs)),
					Evidence: []Evidence{status(m, "growth of what is in use", rate, Bytes), status(m, "in use", float64(m.Status.DBInUse), Bytes),
						status(m, "quota", float64(q), Bytes)},
					Remedy:      []string{"kvd quota --watch 30s", "kvd diagnose --interval 1m  # a longer look, in which a compaction falls"},
					ExplainedBy: []string{"KVD-SPACE-005", "KVD-CHURN-001"}}
				if left <= in.Limits.FullCritical {
					f.Severity = Critical
				}
				out = append(out, f)
			}
			return out, measured
		},
	}
}
