package diagnose

import (
	"fmt"
	"slices"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// checkNoSpace: an alarm outlives its cause and every restart (restoreAlarms in
// server/etcdserver/apply/uber_applier.go), so what is to be done follows from the
// sizes as they are now.
func checkNoSpace() Check {
	return Check{
		Name: "nospace", Asks: "is the cluster writable?", IDs: []string{"KVD-SPACE-001"}, Needs: []Need{NeedView},
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			var raised []cluster.Member
			for _, a := range v.Alarms {
				if a.Type == cluster.AlarmNoSpace {
					raised = append(raised, cluster.Member{ID: a.MemberID, Name: a.MemberName})
				}
			}
			if len(raised) == 0 {
				return nil, "no NOSPACE alarm"
			}
			f := Finding{ID: "KVD-SPACE-001", Severity: Critical, Subject: names(raised),
				Summary:     "NOSPACE is raised by " + names(raised) + ": every put, and every transaction with a put in it, is refused",
				ExplainedBy: []string{"KVD-SPACE-003", "KVD-SPACE-004", "KVD-SPACE-005", "KVD-SPACE-007", "KVD-CHURN-001"}}
			room := true
			for _, m := range v.Answered() {
				f.Evidence = append(f.Evidence, status(m, "file of "+name(m), float64(m.Status.DBSize), Bytes))
				q := m.Status.EffectiveQuota()
				if q > 0 {
					f.Evidence = append(f.Evidence, status(m, "quota of "+name(m), float64(q), Bytes))
				}
				f.ExplainedBy = in.explainFull(f.ExplainedBy, m)
				used, ok := m.Status.UsageRatio()
				room = room && (q == cluster.QuotaDisabled || ok && used < in.Limits.QuotaWarning)
			}
			f.Evidence = append(f.Evidence, in.probes()...)
			switch {
			case v.QuorumLost():
				f.Remedy = []string{"bring back a quorum first: the alarm cannot be disarmed without one"}
			case room && len(v.Silent()) == 0:
				f.Summary += "; no file is near its quota any more, and the alarm stays until it is disarmed"
				f.ExplainedBy = nil
				f.Remedy = []string{"kvd alarm disarm"}
			default:
				f.Remedy = append(in.beforeRescue(), "kvd alarm recover --dry-run", "kvd alarm recover")
			}
			f.Remedy = append(f.Remedy, "probe /livez, or /health?exclude=NOSPACE: a liveness probe on /health restarts etcd again and again, and a restart frees nothing")
			return []Finding{f}, ""
		},
	}
}

// beforeRescue is what has to come first, or what is freed is full again at once: leases
// are not freed by it, and whoever wrote one key again and again goes on with the first
// second after. Until then its writes are refused and make no revision, so that only
// what it did before shows.
func (in *Input) beforeRescue() []string {
	var out []string
	if _, full := in.fullOfLeases(); full {
		out = append(out, leasesOfNobody)
	}
	if in.Writes != nil {
		if f, _, is := in.churn(in.Writes); is {
			out = append(out, "stop whoever writes "+f.Subject+" first (KVD-CHURN-001): it goes on as soon as the alarm is gone")
		}
	}
	return out
}

// probes are what members answered at the paths that probes ask.
func (in *Input) probes() []Evidence {
	var out []Evidence
	for _, p := range in.Probes {
		out = append(out, Evidence{What: p.Path, Text: fmt.Sprintf("%d", p.Code), Value: float64(p.Code), Unit: Count, Source: "GET from " + name(p.Member), At: p.At})
	}
	return out
}

// checkHealthProbe: while an alarm is raised /health answers 503 (checkAlarms in
// server/etcdserver/api/etcdhttp/health.go), and who asks it often is a probe.
func checkHealthProbe() Check {
	return Check{
		Name: "health probes", Asks: "does a probe take an alarm for a dead member?", IDs: []string{"KVD-OPS-001"}, Needs: []Need{NeedView, NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			if len(in.view().Alarms) == 0 {
				return nil, "no alarm is raised"
			}
			var out []Finding
			for _, d := range in.deltas() {
				failed, ok := d.Counter("etcd_server_health_failures", nil)
				if !ok || failed < 1 {
					continue
				}
				out = append(out, Finding{ID: "KVD-OPS-001", Severity: Warning, Subject: name(d.Member), ExplainedBy: []string{"KVD-SPACE-001", "KVD-CORRUPT-001"},
					Summary:  fmt.Sprintf("/health of %s was asked and answered 503, because of the alarm: what restarts etcd for that makes it worse", name(d.Member)),
					Evidence: []Evidence{d.evidence("failed health checks", failed, Count)},
					Remedy:   []string{"have liveness probes ask /livez (etcd 3.4.29, 3.5.11 and later), or /health?exclude=NOSPACE&serializable=true"}})
			}
			return out, "nobody asks /health"
		},
	}
}

// checkHealthAsked counts who asks /health while all is well: it fails with any alarm,
// a full database included, unless it is told to look away. What exactly was asked the
// counters do not tell, so that it is worth a remark only.
func checkHealthAsked() Check {
	return Check{
		Name: "health asked", Asks: "does a probe ask what fails with an alarm?", IDs: []string{"KVD-OPS-006"}, Needs: []Need{NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			if len(in.view().Alarms) > 0 {
				return nil, "an alarm is raised"
			}
			if in.askedHealth() {
				return nil, "kvd itself asked /health, to tell what answers at an endpoint"
			}
			var out []Finding
			for _, d := range in.deltas() {
				asked, _ := d.Counter("etcd_server_health_success", nil)
				if asked < max(1, in.Limits.HealthProbes) {
					continue
				}
				out = append(out, Finding{ID: "KVD-OPS-006", Severity: Info, Subject: name(d.Member),
					Summary:  fmt.Sprintf("/health of %s was asked %.0f times in %s: with an alarm it answers 503, and a liveness probe on it then restarts etcd again and again", name(d.Member), asked, Seconds.Show(d.Elapsed().Seconds())),
					Evidence: []Evidence{d.evidence("answers of /health", asked, Count)},
					Remedy:   []string{"have liveness probes ask /livez (etcd 3.4.29, 3.5.11 and later), or /health?exclude=NOSPACE&serializable=true", "a load balancer or a human may ask /health as they like"}})
			}
			return out, "nobody asks /health"
		},
	}
}

// askedHealth reports that an endpoint is a port for metrics: it was asked for /health
// to tell that, at each look.
func (in *Input) askedHealth() bool {
	return slices.ContainsFunc(in.view().Unreached, func(u cluster.EndpointError) bool { return fault.CauseOf(u.Err) == cluster.CauseMetricsPort })
}
