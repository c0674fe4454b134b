package ops

import "kvd/pkg/ops/cluster"

// What etcd does while NOSPACE is raised, as its source has it and as
// TestWhatWorksUnderNospace sees it on a real server: the capped applier refuses
// puts, transactions with a put anywhere in them (also in the branch that is not
// taken, also nested), and lease grants (server/etcdserver/apply, capped applier;
// server/etcdserver/api/v3rpc/quota.go).
const (
	nospaceWorks = "deletes, transactions without a put, compaction, defrag, lease revoke and keepalive, user changes and all reads work"
	nospaceFails = "every put, every transaction with a put in either branch, and lease grants are refused; " +
		"so is deleting a pod gracefully through Kubernetes, which updates it first"
	nospaceProbe = "/health answers 503 on every member while NOSPACE is raised; /livez and /readyz stay ok"
)

// nospaceFindings explains what a raised NOSPACE means for whoever is on call.
func nospaceFindings(v cluster.View) []Finding {
	if !v.HasAlarm(cluster.AlarmNoSpace) {
		return nil
	}
	return []Finding{
		{Cause: FindNoSpaceRules, Message: "while NOSPACE is raised " + nospaceFails + "; " + nospaceWorks,
			Hint: "space can be made: kvd compact, kvd defrag, deleting keys"},
		{Cause: FindNoSpaceProbe, Message: nospaceProbe,
			Hint: "a liveness probe on /health restarts etcd again and again, and a restart frees nothing: probe /livez, or /health?exclude=NOSPACE"},
	}
}
