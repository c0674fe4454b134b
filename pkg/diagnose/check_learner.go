package diagnose

import (
	"fmt"
	"strings"

	"kvd/pkg/ops/cluster"
)

// checkLearner looks at members that do not vote. How long they have not is not
// known, so that one that keeps up is worth a remark only.
func checkLearner() Check {
	return Check{
		Name: "learners", Asks: "is a learner left over, or stuck?", IDs: []string{"KVD-RAFT-006"}, Needs: []Need{NeedView},
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			var out []Finding
			for _, m := range v.Learners() {
				out = append(out, in.learner(v, m))
			}
			for _, m := range v.Voters() {
				if f, so := in.inNameOnly(m); so {
					out = append(out, f)
				}
			}
			return out, "there is none"
		},
	}
}

func (in *Input) learner(v cluster.View, m cluster.Member) Finding {
	f := Finding{ID: "KVD-RAFT-006", Severity: Info, Subject: name(m), Evidence: []Evidence{{What: "role", Text: "learner", Source: "member list", At: v.At}}, Remedy: []string{"kvd member promote " + name(m), "kvd member remove " + name(m) + "  # if it is not wanted"}}
	switch {
	case !m.Started():
		f.Summary = "the learner " + name(m) + " was added and never started; no other can be added meanwhile"
		f.Remedy[0] = "kvd member list  # how it has to be started"
		return f
	case m.Status == nil:
		f.Severity, f.Summary, f.ExplainedBy = Warning, "the learner "+name(m)+" does not answer", []string{"KVD-NET-001"}
		f.Remedy[0] = "start it"
		return f
	}
	if len(v.Answered()) == 1 {
		f.Summary = name(m) + " is a learner, and whether it has caught up only others can tell, of whom none answers: it adds nothing to the failures survived"
		f.Evidence = append(f.Evidence, status(m, "applied", float64(m.Status.AppliedIndex), Index))
		return f
	}
	lag := v.Lag(m)
	head := m.Status.AppliedIndex + lag
	share := float64(m.Status.AppliedIndex) / float64(max(1, head))
	f.Evidence = append(f.Evidence, status(m, "applied", float64(m.Status.AppliedIndex), Index), status(m, "committed by the others", float64(head), Index))
	f.Summary = fmt.Sprintf("%s is a learner, %s caught up: it adds nothing to the failures survived", name(m), percent(share))
	if n := len(v.Voters()); n >= 3 && n%2 == 1 { // the quorum grows with it
		f.Remedy = []string{f.Remedy[0] + fmt.Sprintf("  # if a voter is to go for it: %d voters survive as many failures as %d", n+1, n),
			"leave it as it is, if it is to stay a copy: with the quota of the others, since its NOSPACE ends the writes of all", f.Remedy[1]}
	}
	old, ok := in.before(m.ID)
	if ok && float64(lag) >= in.Limits.LagEntries && old.Status.AppliedIndex == m.Status.AppliedIndex {
		f.Severity = Warning
		f.Summary = fmt.Sprintf("the learner %s does not catch up: it stands at index %d, %s behind", name(m), m.Status.AppliedIndex, entries(int64(lag))) //nolint:gosec // far below 2^63
		f.Remedy = []string{"see its log: a snapshot that does not get through, a disk that is full", "kvd member remove " + name(m) + "  # if it is not wanted"}
	}
	return f
}

// inNameOnly finds a voter of the member list that is none: etcd forgot that a member is a
// learner when its peer URLs were changed, in the list and not in raft (UpdateRaftAttributes
// in server/etcdserver/api/membership/cluster.go of 3.6.11). The member itself remembers
// until it begins with a snapshot.
func (in *Input) inNameOnly(m cluster.Member) (Finding, bool) {
	s := in.Now.Metrics[m.ID]
	if s == nil {
		return Finding{}, false
	}
	if v, ok := s.Value("etcd_server_is_learner", nil); !ok || v == 0 {
		return Finding{}, false
	}
	f := Finding{ID: "KVD-RAFT-006", Severity: Warning, Subject: name(m),
		Summary: name(m) + " is a voter in the member list and says of itself that it is a learner: etcd before 3.5.31 and 3.6.12 makes that of a learner whose peer URLs are changed (etcd issue 21694); it does not vote, cannot be promoted, and is counted for the quorum by who goes by the list",
		Evidence: []Evidence{{What: "role", Text: "voter", Source: "member list", At: in.At},
			{What: "etcd_server_is_learner", Value: 1, Unit: Count, Source: "metrics of " + name(m), At: in.At}},
		Remedy: []string{"kvd member remove " + name(m), "kvd member add " + name(m) + " --peer-urls " + strings.Join(m.PeerURLs, ",") + "  # with an empty data dir, and its peer URLs as they are to stay"}}
	if m.Status != nil {
		if v, ok := parse(m.Status.Version); ok && v.Major == 3 && v.Minor < 6 { // which set the metric by entries of the log alone
			f.Remedy = append([]string{"restart " + name(m) + " and look again  # one that heard of its promotion by a snapshot says so until then, and is well"}, f.Remedy...)
		}
	}
	return f, true
}
