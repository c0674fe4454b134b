package diagnose

import "fmt"

// checkChurn names the keys that most of the latest revisions were written to.
func checkChurn() Check {
	return Check{
		Name: "who writes", Asks: "does one key get most of the writes?", IDs: []string{"KVD-CHURN-001"}, Needs: []Need{NeedWrites},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			var good []string
			for _, w := range in.allWrites() {
				f, measured, is := in.churn(w)
				if is {
					out = append(out, f)
				} else {
					good = append(good, measured)
				}
			}
			return out, list(good)
		},
	}
}

// allWrites are those of a member and those of files.
func (in *Input) allWrites() []*Writes {
	var out []*Writes
	if in.Writes != nil {
		out = append(out, in.Writes)
	}
	for _, d := range in.Dirs {
		if d.Writes != nil {
			out = append(out, d.Writes)
		}
	}
	return out
}

func (in *Input) churn(w *Writes) (f Finding, measured string, is bool) {
	total := w.To - w.From + 1
	if len(w.Keys) == 0 || total <= 0 {
		return f, "nothing was written", false
	}
	top := w.Keys[0]
	share := float64(top.Writes) / float64(total)
	good := fmt.Sprintf("of the latest %s the most, %s, went to %s", counted(total, "revision"), percent(share), printable(top.Key))
	if float64(total) < in.Limits.ChurnRevs || share < in.Limits.ChurnShare {
		return f, good, false
	}
	when := "  # when"
	if in.ofKubernetes(top.Key) {
		when += "; who does is in kube-apiserver's audit log"
	}
	f = Finding{ID: "KVD-CHURN-001", Severity: Warning, Subject: printable(top.Key), Summary: fmt.Sprintf("%s of the latest %s are of one key, %s; %s were written at all",
		percent(share), counted(total, "revision"), printable(top.Key), counted(w.Distinct, "key")),
		Remedy: []string{"kvd keys history " + ShellWord(printable(top.Key)) + "  # what changes in it", "kvd wal dump DATA-DIR --key " + ShellWord(printable(top.Key)) + when, "if it is a counter or a status, write it less often, or elsewhere"}}
	for _, k := range w.Keys {
		f.Evidence = append(f.Evidence, Evidence{What: "writes to " + printable(k.Key), Value: float64(k.Writes), Unit: Count,
			Source: fmt.Sprintf("revisions %d to %d of %s", w.From, w.To, w.Member), At: in.At})
	}
	return f, "", true
}

// ofKubernetes reports that a key is one of Kubernetes' objects.
func (in *Input) ofKubernetes(key []byte) bool {
	_, ok := in.layout().ResourcePrefix(string(key))
	return ok
}
