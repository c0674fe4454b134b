package diagnose

import (
	"fmt"

	"kvd/pkg/ops/cluster"
)

// checkFree looks for files that are mostly free pages. The quota counts them, and
// the next writes use them: they matter where the quota is near.
func checkFree() Check {
	return Check{
		Name: "free pages", Asks: "is the quota used up by free pages?", IDs: []string{"KVD-SPACE-004"}, Needs: []Need{NeedStatus},
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			var out []Finding
			most, share := "", -1.0
			for _, m := range v.Answered() {
				s := m.Status
				free := float64(s.DBSize-s.DBInUse) / float64(max(1, s.DBSize))
				if free > share {
					share, most = free, fmt.Sprintf("%s of the file of %s is free, %s", percent(free), name(m), size(s.DBSize-s.DBInUse))
				}
				used, ok := s.UsageRatio()
				full := ok && used >= in.Limits.FreeUsage || v.HasAlarm(cluster.AlarmNoSpace)
				if free < in.Limits.FreeRatio || !full {
					continue
				}
				f := Finding{ID: "KVD-SPACE-004", Severity: Warning, Subject: name(m),
					Summary: fmt.Sprintf("%s of the file of %s are free pages, which its quota counts: %s of %s", percent(free), name(m), size(s.DBSize-s.DBInUse), size(s.DBSize)),
					Evidence: []Evidence{status(m, "file", float64(s.DBSize), Bytes), status(m, "free pages", float64(s.DBSize-s.DBInUse), Bytes),
						status(m, "quota", float64(s.EffectiveQuota()), Bytes)},
					Remedy: []string{"kvd defrag --dry-run", "kvd defrag"}}
				if m.Learner {
					f.Remedy = learnerRoom(m)
				}
				out = append(out, f)
			}
			return out, most
		},
	}
}
