package diagnose

import (
	"fmt"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// checkEndpoints names the cause for each member and endpoint that does not answer.
// Who refuses us is there: that is no finding (see refusesUs).
func checkEndpoints() Check {
	return Check{
		Name: "endpoints", Asks: "does every member answer?", IDs: []string{"KVD-NET-001"}, Needs: []Need{NeedView}, Blind: votersUnknown,
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			var out []Finding
			for _, m := range v.Silent() {
				if m.Started() && m.Err != nil && !refusesUs(m.Err) {
					f := silent(name(m), m.Endpoint, m.Err)
					f.Evidence[0].At = m.At
					e, by, starved := in.snapshotFails(m)
					switch {
					case starved:
						f.Why = fmt.Sprintf("it is too far behind for the log, and %s cannot send it the snapshot that it needs, for which it connects to %s: it may hear all and vote, but takes nothing, so that no write can count on it", by, list(m.PeerURLs))
						f.Evidence, f.Remedy = append(f.Evidence, e), append(f.Remedy, reachForSnapshot(m, by)...)
					case m.Learner:
						f.Why = "a learner does not vote, so that as many failures are survived as before; but it falls behind, and clients that know it only are cut off"
					case in.heardBy(v, m) != "":
						f.Why = in.heardBy(v, m) + " hears from it, so that it runs and votes: as many failures are survived as before; but whoever is sent to this URL from here is cut off"
						f.Evidence = append(f.Evidence, Evidence{What: "heard by its peers", Text: "between the looks, at neither of which it answered here", Source: "metrics of " + in.heardBy(v, m), At: v.At})
					case v.QuorumLost():
						f.Severity = Critical
						f.Why = "too few voters are left for a quorum: nothing is written until enough of them are back"
						f.Remedy = append(f.Remedy, "start it again; if it is gone for good, see KVD-RAFT-002: nobody can be replaced without a quorum")
						f.Remedy = append(f.Remedy, whyNotStarted(m)...)
					case v.Commits:
						f.Why = "too few voters for a quorum are reached from here, and yet the cluster commits: some of those that do not answer run"
						help := "give --endpoints that lead to it: it may well run, and must not be removed or replaced for not being reached from here"
						if cluster.IsBusy(m.Err) {
							help = "look again later: while it defragments or starts a member answers nobody, and must not be removed or replaced for that"
						}
						f.Remedy = append(f.Remedy, help)
					case cluster.MayBeGone(m.Err):
						f.Remedy = append(f.Remedy, whyNotStarted(m)...)
						f.Remedy = append(f.Remedy, "kvd member update "+name(m)+" --peer-urls URL  # if its machine has a new address", "kvd member replace "+name(m)+"  # if it is gone for good")
					}
					if e, other := in.otherIssuer(m); other {
						f.Summary += "; its peers have certificates of another CA"
						f.Evidence, f.Remedy = append(f.Evidence, e), append([]string{ofOneCA(m)}, f.Remedy...)
					}
					f.ExplainedBy = []string{"KVD-RAFT-012", "KVD-NET-002"}
					if in.unusable(m) {
						f.ExplainedBy = append(f.ExplainedBy, "KVD-TLS-001")
					}
					if in.logBehind(m.ID) {
						f.ExplainedBy = append(f.ExplainedBy, "KVD-RAFT-011")
					}
					out = append(out, f)
				}
			}
			for _, u := range v.Unreached {
				if !refusesUs(u.Err) {
					out = append(out, unreached(v, u))
				}
			}
			return out, fmt.Sprintf("all of %d", len(v.Members))
		},
	}
}

// whyNotStarted asks the files of a member whose machine is there and where nobody
// listens: most that are down do not start for what they say.
func whyNotStarted(m cluster.Member) []string {
	if fault.CauseOf(m.Err) != cluster.CauseConnectionRefused {
		return nil
	}
	return []string{"kvd wal verify DATA-DIR  # on its machine, if it does not start there: why, and what helps"}
}

// unreached is an endpoint that was given and of which it is not known whose it is.
// Where every member answers elsewhere it is nobody's.
func unreached(v cluster.View, u cluster.EndpointError) Finding {
	f := silent(u.Endpoint, u.Endpoint, u.Err)
	switch {
	case fault.CauseOf(u.Err) == cluster.CauseNotEachTime:
		f.Summary = fmt.Sprintf("%s does not let everybody in: %s", u.Endpoint, fault.Why(u.Err))
		f.Why = "clients that are given it fail by chance, anew with each connection"
	case !v.VotersKnown():
		f.Why = "clients that are given it are cut off; whether a member is missing with it is not known"
	case len(v.Silent()) == 0:
		f.Why = "every member answers elsewhere, so that as many failures are survived as before; but clients that are given this endpoint try it in vain"
		f.Remedy = append(f.Remedy, "kvd member list  # the endpoints that there are: give clients those")
	}
	return f
}

func silent(who, endpoint string, err error) Finding {
	f := Finding{ID: "KVD-NET-001", Severity: Warning, Subject: who, Summary: fmt.Sprintf("%s does not answer: %s", who, fault.Why(err)),
		Evidence: []Evidence{{What: "cause", Text: fault.CauseOf(err), Source: "connecting to " + endpoint}}}
	if h := fault.HintOf(err); h != "" {
		f.Remedy = []string{h}
	}
	return f
}

// refusesUs reports an error that says that the member is there and wants
// something of us.
func refusesUs(err error) bool {
	switch fault.CauseOf(err) {
	case cluster.CauseAuthRequired, cluster.CauseAuthFailed, cluster.CausePermissionDenied,
		cluster.CauseClientCertRequired, cluster.CauseClientCertRejected, cluster.CauseAuthNotEnabled:
		return true
	}
	return false
}
