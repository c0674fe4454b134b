package diagnose

import (
	"fmt"
	"maps"
	"slices"

	"kvd/pkg/ops/metrics"
)

// checkPeers looks at the round trips between members. Few are measured in a short
// look, so that only what all of them show is said: that not one was quick.
func checkPeers() Check {
	return Check{
		Name: "network", Asks: "do the members reach each other quickly?", IDs: []string{"KVD-NET-003"}, Needs: []Need{NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			const metric = metrics.PeerRoundTrips
			var out []Finding
			slowest, measured := 0.0, "no round trip was measured"
			for _, d := range in.deltas() {
				for _, to := range d.To.LabelValues(metric, "To") {
					h, ok := d.Histogram(metric, metrics.Labels{"To": to})
					if !ok || h.Count == 0 {
						continue
					}
					if h.Mean() > slowest {
						slowest, measured = h.Mean(), fmt.Sprintf("%s to %s takes the longest: %s, by %s", name(d.Member), in.nameOf(to), Seconds.Show(h.Mean()), counted(h.Count, "round trip"))
					}
					if float64(h.Count) < in.Limits.RoundTrips || quick(h, in.Limits.PeerTime) > 0 {
						continue
					}
					out = append(out, in.farPeer(d, in.nameOf(to), h))
				}
			}
			return out, measured
		},
	}
}

// farPeer compares round trips with the times that elections go by: etcd advises a
// heartbeat interval of about the round trip, and an election timeout of ten.
func (in *Input) farPeer(d memberDelta, to string, h metrics.Histogram) Finding {
	l := in.Limits
	f := Finding{ID: "KVD-NET-003", Severity: Warning, Subject: name(d.Member),
		Summary: fmt.Sprintf("each of %d round trips from %s to %s took longer than %s, %s in the mean", h.Count, name(d.Member), to, Seconds.Show(l.PeerTime), Seconds.Show(h.Mean())),
		Evidence: []Evidence{d.evidence("mean round trip to "+to, h.Mean(), Seconds), d.evidence("round trips", float64(h.Count), Count),
			{What: "heartbeat interval", Value: l.Heartbeat, Unit: Seconds, Source: "limit heartbeat_interval", At: in.At}, {What: "election timeout", Value: l.ElectionTimeout, Unit: Seconds, Source: "limit election_timeout", At: in.At}},
		Remedy: []string{"see the network between the two", "members that far apart need --heartbeat-interval of about the round trip, and --election-timeout of ten times that, on all of them",
			"kvd diagnose --set heartbeat_interval=250ms --set election_timeout=2500ms  # where yours are not etcd's defaults: with yours"}}
	switch {
	case h.Mean()*l.ElectionTrips > l.ElectionTimeout:
		f.Summary += fmt.Sprintf("; the election timeout, %s, is less than %.0f of them: a few that are late end in an election", Seconds.Show(l.ElectionTimeout), l.ElectionTrips)
	case h.Mean() > l.Heartbeat:
		f.Summary += fmt.Sprintf("; a heartbeat is due every %s, before the last one is answered", Seconds.Show(l.Heartbeat))
	}
	return f
}

// quick is how many observations were below a limit, as far as the bounds tell.
func quick(h metrics.Histogram, limit float64) uint64 {
	for _, b := range h.Buckets {
		if b.Le >= limit {
			return b.Count
		}
	}
	return h.Count
}

// nameOf names the member with an ID in hex, as metrics have it.
func (in *Input) nameOf(id string) string {
	for _, m := range in.view().Members {
		if fmt.Sprintf("%x", m.ID) == id {
			return name(m)
		}
	}
	return id
}

// checkSpread looks at where clients' watches are: all on one member means that
// they all move to another at once.
func checkSpread() Check {
	return Check{
		Name: "spread of clients", Asks: "are clients spread over the members?", IDs: []string{"KVD-NET-004"}, Needs: []Need{NeedMetrics},
		Look: func(in *Input) ([]Finding, string) {
			streams := map[string]float64{}
			total := 0.0
			for _, m := range in.view().Answered() {
				s := in.Now.Metrics[m.ID]
				if s == nil || m.Learner {
					continue
				}
				n, _ := s.Value("etcd_debugging_mvcc_watch_stream_total", nil)
				streams[name(m)] = n
				total += n
			}
			measured := fmt.Sprintf("%.0f watch streams on %s", total, counted(len(streams), "member"))
			if len(streams) < 2 || total < in.Limits.Clients {
				return nil, measured
			}
			for _, who := range slices.Sorted(maps.Keys(streams)) {
				if n := streams[who]; n/total >= in.Limits.ClientsShare {
					return []Finding{{ID: "KVD-NET-004", Severity: Info, Subject: who,
						Summary:  fmt.Sprintf("%.0f of %.0f watch streams are on %s: its end would bring them all to another member at once", n, total, who),
						Evidence: []Evidence{{What: "watch streams on " + who, Value: n, Unit: Count, Source: "metrics", At: in.Now.View.At}, {What: "on all members", Value: total, Unit: Count, Source: "metrics", At: in.Now.View.At}},
						Remedy:   []string{"give clients the endpoints of all members; each kube-apiserver the one beside it"}}}, ""
				}
			}
			return nil, measured
		},
	}
}
