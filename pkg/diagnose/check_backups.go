package diagnose

import "fmt"

// checkBackups looks at when the newest backup was made.
func checkBackups() Check {
	return Check{
		Name: "backups", Asks: "is there a backup of today?", IDs: []string{"KVD-OPS-002"}, Needs: []Need{NeedBackups},
		Look: func(in *Input) ([]Finding, string) {
			b := in.Backups
			age := max(0, in.At.Sub(b.At).Seconds())
			if b.Newest != "" && age <= in.Limits.BackupAge {
				return nil, fmt.Sprintf("%s is %s old, of %s", b.Newest, Seconds.Show(age), counted(b.Count, "file")) + b.besides()
			}
			f := Finding{ID: "KVD-OPS-002", Severity: Warning, Subject: b.Dir, Remedy: []string{"kvd snapshot save " + ShellWord(b.Dir+"/FILE")}}
			switch {
			case b.Newest != "":
				f.Summary = fmt.Sprintf("the newest backup, %s, is %s old", b.Newest, Seconds.Show(age)) + b.besides()
				if b.Unread != "" {
					f.Summary += "; there may be a newer one where it could not be looked: " + b.Unread
				}
				f.Evidence = []Evidence{{What: "age", Value: age, Unit: Seconds, Source: b.Newest, At: in.At}, {What: "should be at most", Value: in.Limits.BackupAge, Unit: Seconds, Source: "--max-backup-age", At: in.At}}
				f.Remedy = append(f.Remedy, "see why the job that makes them does not")
			case b.Unread != "":
				f.Summary = "no backup was found: " + b.Unread + b.besides()
			default:
				f.Summary = "there is no backup in " + b.Dir + b.besides()
			}
			if b.Newest == "" {
				f.Evidence = []Evidence{{What: "snapshots", Value: 0, Unit: Count, Source: b.Dir, At: in.At}}
			}
			if b.Cut.Name != "" {
				f.Remedy = append(f.Remedy, "kvd snapshot verify "+ShellWord(b.Cut.Name))
			}
			return []Finding{f}, ""
		},
	}
}

// besides names what is not counted and would be the newest if it were.
func (b *Backups) besides() string {
	out := ""
	if b.Cut.Name != "" && b.Cut.At.After(b.At) {
		out += "; " + b.Cut.Name + " is newer and no backup: " + b.Cut.Why
	}
	if b.Other.Name != "" && b.Other.At.After(b.At) {
		out += "; " + b.Other.Name + " is newer and does not count: " + b.Other.Why
	}
	if b.Ahead.Name != "" {
		out += "; " + b.Ahead.Name + " does not count: " + b.Ahead.Why
	}
	return out
}
