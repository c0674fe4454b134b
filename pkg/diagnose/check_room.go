package diagnose

import (
	"cmp"
	"fmt"
	"slices"
)

// checkRoom compares each database with the memory that can hold it: etcd maps the
// whole file (server/storage/backend), and every page of it that is not in memory is
// read from the disk when it is asked for.
func checkRoom() Check {
	return Check{
		Name: "room in memory", Asks: "does the machine hold the database in memory?", IDs: []string{"KVD-MEM-002"}, Needs: []Need{NeedHost},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			for _, h := range in.Hosts {
				if float64(h.File) < in.Limits.MemoryRoom*float64(h.Room()) {
					continue
				}
				f := Finding{ID: "KVD-MEM-002", Severity: Warning, Subject: h.Of, Evidence: h.evidence(in),
					Summary: fmt.Sprintf("the database of %s, %s, takes %s of the memory that is there for it, %s: a page that is not in memory is read from the disk, with all clients waiting", h.Of, size(h.File), percent(h.share()), size(h.Room())),
					Remedy: []string{"kvd keys usage  # what fills it", "kvd quota  # how much of it is history or free", "kvd compact  # where much is history", "kvd defrag",
						"give the machine, or its control group, more memory; see what else runs there"},
					ExplainedBy: []string{"KVD-SPACE-004", "KVD-SPACE-005"}}
				if !h.Runs {
					f.Severity = Info // it may be a copy, and be started elsewhere
				}
				out = append(out, f)
			}
			h := slices.MaxFunc(in.Hosts, func(a, b Host) int { return cmp.Compare(a.share(), b.share()) })
			return out, fmt.Sprintf("%s has %s, and room for %s", h.Of, size(h.File), size(h.Room()))
		},
	}
}

func (h Host) share() float64 { return float64(h.File) / float64(max(1, h.Room())) }

func (h Host) evidence(in *Input) []Evidence {
	of := func(what string, v int64) Evidence {
		return Evidence{What: what, Value: float64(v), Unit: Bytes, Source: h.Source, At: in.At}
	}
	out := []Evidence{of("database", h.File), of("memory that can be had", h.Free), of("memory of the machine", h.Total)}
	if h.Limit > 0 {
		out = append(out, of("limit of its control group", h.Limit), of("of that left for pages of files", h.Allowed))
	}
	return out
}
