package ops

import (
	"fmt"

	"kvd/pkg/ops/cluster"
)

// What etcd does while NOSPACE is raised, as its source has it and as
// TestWhatWorksUnderNospace sees it on a real server: the capped applier refuses
// puts, transactions with a put anywhere in them (also in the branch that is not
// taken, also nested), and lease grants (server/etcdserver/apply, capped applier;
// server/etcdserver/api/v3rpc/quota.go).
const (
	nospaceWorks = "deletes, transactions without a put, compaction, defrag, lease revoke and keepalive, user changes and all reads work"
	nospaceFails = "every put, every transaction with a put in either branch, and lease grants are refused; " +
		"so is deleting a pod gracefully through Kubernetes, which updates it first"
	nospaceProbe = "/health answers 503 on every member while NOSPACE is raised"
)

// nospaceFindings explains what a raised NOSPACE means for whoever is on call.
func nospaceFindings(v cluster.View) []Finding {
	if !v.HasAlarm(cluster.AlarmNoSpace) {
		return nil
	}
	return []Finding{
		{Cause: FindNoSpaceRules, Message: "while NOSPACE is raised " + nospaceFails + "; " + nospaceWorks,
			Hint: "space can be made: kvd compact, kvd defrag, kvd keys delete, kvd lease revoke"},
		nospaceProbes(v),
	}
}

// nospaceProbes says which probe to use instead of /health, of those that every
// member has.
func nospaceProbes(v cluster.View) Finding {
	f := Finding{
		Cause: FindNoSpaceProbe, Message: nospaceProbe + "; /livez and /readyz stay ok",
		Hint: "a liveness probe on /health restarts etcd again and again, and a restart frees nothing: probe /livez, or /health?exclude=NOSPACE",
	}
	if old := probesByPurpose().without(v); len(old) > 0 {
		f.Message = fmt.Sprintf("%s; etcd %s of %s has no /livez and /readyz, which came with 3.4.29 and 3.5.11", nospaceProbe, old[0].Status.Version, old[0].Label())
		f.Hint = "a liveness probe on /health restarts etcd again and again, and a restart frees nothing: probe /health?exclude=NOSPACE"
	}
	return f
}
