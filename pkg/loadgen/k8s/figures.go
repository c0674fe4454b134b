package k8s

import "kvd/pkg/loadgen/result"

// Each scenario says in Figures what can be measured of it as it is set: what its actors
// send and count, and nothing of what Setup makes before the load.

// sends are requests of one kind on several resources.
func sends(rpc string, resources ...string) result.Names {
	var out result.Names
	for _, r := range resources {
		out.Requests = append(out.Requests, result.Sent{RPC: rpc, Resource: r})
	}
	return out
}

// sendsAfterConflict are those that read an object that somebody else has written.
func sendsAfterConflict(resource string) result.Names {
	return result.Names{Requests: []result.Sent{{RPC: "range", Resource: resource, Only: "after a conflict"}}}
}

func counts(counters ...string) result.Names { return result.Names{Counters: counters} }

// foregroundFigures are those of foreground.
func foregroundFigures(nodes int) result.Names {
	if nodes == 0 {
		return result.Names{}
	}
	return (&Heartbeats{DefaultHeartbeatOptions()}).Figures()
}

// informerFigures are those of informers that nobody waits for.
func informerFigures() result.Names { return counts("watch_events", "watch_bytes", "watches_ended") }

// eventFigures are those of a source of Events that repeats none.
func eventFigures() result.Names {
	return sends("txn", "events").With(sends("lease_grant", "events")).With(sendsAfterConflict("events"))
}

// figures are those of listing.run.
func (l listing) figures(resource string) result.Names {
	return sends(l.rpc(), l.label(resource)).With(sends("list", l.label(resource))).With(counts("objects_listed", "relists"))
}

// rpc is what a page is read by.
func (l listing) rpc() string {
	if l.stream {
		return "range_stream"
	}
	return "range"
}
