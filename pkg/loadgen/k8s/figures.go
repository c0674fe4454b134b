package k8s

import "kvd/pkg/loadgen/result"

// Figures returns what can be measured of a scenario, so that an objective on anything
// else is found before the run.
func Figures(name string) result.Names {
	heartbeats := []string{"late_heartbeats", "missed_heartbeats", "failed_heartbeats"}
	informers := []string{"watch_events", "watch_bytes", "watches_ended", "progress_requests"}
	lists := []string{"objects_listed", "relists"}
	out := result.Names{Requests: []string{"txn", "range", "compact"}}
	add := func(requests []string, counters ...[]string) {
		out.Requests = append(out.Requests, requests...)
		for _, c := range counters {
			out.Counters = append(out.Counters, c...)
		}
	}
	switch name {
	case (*Heartbeats)(nil).Name():
		add(nil, heartbeats)
	case (*List)(nil).Name():
		add([]string{"range_stream", "list"}, heartbeats, informers, lists)
	case (*Endpoints)(nil).Name():
		add(nil, heartbeats, informers)
	case (*Events)(nil).Name():
		add([]string{"lease_grant"}, heartbeats, informers)
	case (*Watch)(nil).Name():
		add([]string{"watch_event"}, heartbeats, []string{"missing_events", "duplicate_events", "unordered_events", "events_too_old", "watches_compacted", "watches_ended"})
	case (*Pods)(nil).Name():
		add([]string{"lease_grant"}, heartbeats)
	case (*Relist)(nil).Name():
		add([]string{"range_stream", "list", "cache_filled"}, heartbeats, lists, []string{"watch_events"})
	case (*Cluster)(nil).Name():
		add([]string{"range_stream", "lease_grant"}, heartbeats, informers, lists)
	}
	return out
}
