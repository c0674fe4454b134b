package diagnose

import "fmt"

// checkChurn names the keys that most of the latest revisions were written to.
func checkChurn() Check {
	return Check{
		Name: "who writes", Asks: "does one key get most of the writes?", IDs: []string{"KVD-CHURN-001"}, Needs: []Need{NeedWrites},
		Look: func(in *Input) ([]Finding, string) {
			w := in.Writes
			total := w.To - w.From + 1
			if len(w.Keys) == 0 || total <= 0 {
				return nil, "nothing was written"
			}
			top := w.Keys[0]
			share := float64(top.Writes) / float64(total)
			good := fmt.Sprintf("of the latest %s the most, %s, went to %s", counted(total, "revision"), percent(share), printable(top.Key))
			if float64(total) < in.Limits.ChurnRevs || share < in.Limits.ChurnShare {
				return nil, good
			}
			f := Finding{ID: "KVD-CHURN-001", Severity: Warning, Subject: printable(top.Key), Summary: fmt.Sprintf("%s of the latest %s are of one key, %s; %s were written at all",
				percent(share), counted(total, "revision"), printable(top.Key), counted(w.Distinct, "key")),
				Remedy: []string{"find the client that rewrites it: kvd wal dump DATA-DIR --key KEY, and its audit log", "if it is a counter or a status, write it less often, or elsewhere"}}
			for _, k := range w.Keys {
				f.Evidence = append(f.Evidence, Evidence{What: "writes to " + printable(k.Key), Value: float64(k.Writes), Unit: Count,
					Source: fmt.Sprintf("watch from revision %d to %d on %s", w.From, w.To, w.Member), At: in.At})
			}
			return []Finding{f}, ""
		},
	}
}
