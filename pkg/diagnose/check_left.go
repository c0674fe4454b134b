package diagnose

import "fmt"

// checkLeft tells what lies about in a directory. None of it keeps a member from
// starting.
func checkLeft() Check {
	return Check{
		Name: "left-over files", Asks: "is there only what belongs there?", IDs: []string{"KVD-OPS-003", "KVD-OPS-004", "KVD-OPS-005"}, Needs: []Need{NeedFiles},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			for _, d := range in.Dirs {
				if d.Holder != "" {
					out = append(out, held(d.Path, d.Holder))
				}
				for _, s := range d.Snaps {
					if f, odd := s.finding(d.memberDir()); odd {
						out = append(out, f)
					}
				}
				for _, l := range d.Left {
					out = append(out, Finding{ID: "KVD-OPS-005", Severity: Info, Subject: l.Path, Summary: fmt.Sprintf("%s (%s) is left over: %s", l.Path, size(l.Bytes), l.Means),
						Evidence: []Evidence{{What: "size", Value: float64(l.Bytes), Unit: Bytes, Source: l.Path}}, Remedy: []string{"remove it once the member runs well"}})
				}
			}
			for _, f := range in.Files {
				if f.Holder != "" {
					out = append(out, held(f.Path, f.Holder))
				}
			}
			return out, "nothing else"
		},
	}
}

func held(path, holder string) Finding {
	return Finding{ID: "KVD-OPS-003", Severity: Info, Subject: path, Summary: fmt.Sprintf("a running server has it open: %s", holder),
		Evidence: []Evidence{{What: "held by", Text: holder, Source: "/proc/locks"}},
		Remedy:   []string{"kvd diagnose  # asks the server itself", "stop it before anything is done to its files"}}
}

// finding tells of a .snap file that only an older etcd would mind. One that the log
// does not know any more is usual: segments go with their records.
func (s SnapFile) finding(dir string) (Finding, bool) {
	if s.Damaged == "" {
		return Finding{}, false
	}
	return Finding{ID: "KVD-OPS-004", Severity: Info, Subject: dir + "/snap/" + s.Name, Summary: fmt.Sprintf("%s is damaged (%s); a start of etcd 3.7 does not read it, one of 3.6 would", s.Name, s.Damaged),
		Evidence: []Evidence{{What: "damage", Text: s.Damaged, Source: s.Name}, {What: "in the log's snapshot records", Text: map[bool]string{true: "yes", false: "no"}[s.Known], Source: dir}},
		Remedy:   []string{"nothing to do on 3.7.2 and later; before a downgrade let the member write a new one"}}, true
}
