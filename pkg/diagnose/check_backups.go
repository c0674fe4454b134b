package diagnose

import "fmt"

// checkBackups looks at when the newest backup was made.
func checkBackups() Check {
	return Check{
		Name: "backups", Asks: "is there a backup of today?", IDs: []string{"KVD-OPS-002"}, Needs: []Need{NeedBackups},
		Look: func(in *Input) ([]Finding, string) {
			b := in.Backups
			if b.Newest == "" {
				what := "there is no backup in " + b.Dir
				if b.Unread != "" {
					what = "no backup was found: " + b.Unread
				}
				return []Finding{{ID: "KVD-OPS-002", Severity: Warning, Subject: b.Dir, Summary: what,
					Evidence: []Evidence{{What: "snapshots", Value: 0, Unit: Count, Source: b.Dir, At: in.At}}, Remedy: []string{"kvd snapshot save " + b.Dir + "/FILE"}}}, ""
			}
			age := in.At.Sub(b.At).Seconds()
			if age <= in.Limits.BackupAge {
				return nil, fmt.Sprintf("%s is %s old, of %s", b.Newest, Seconds.Show(age), counted(b.Count, "file"))
			}
			summary := fmt.Sprintf("the newest backup, %s, is %s old", b.Newest, Seconds.Show(age))
			if b.Unread != "" {
				summary += "; there may be a newer one where it could not be looked: " + b.Unread
			}
			return []Finding{{ID: "KVD-OPS-002", Severity: Warning, Subject: b.Dir, Summary: summary,
				Evidence: []Evidence{{What: "age", Value: age, Unit: Seconds, Source: b.Newest, At: in.At}, {What: "should be at most", Value: in.Limits.BackupAge, Unit: Seconds, Source: "--max-backup-age", At: in.At}},
				Remedy:   []string{"kvd snapshot save " + b.Dir + "/FILE", "see why the job that makes them does not"}}}, ""
		},
	}
}
