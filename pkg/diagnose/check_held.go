package diagnose

import (
	"fmt"

	"kvd/pkg/ops/snapshot"
)

// checkStoredObjects looks in files for what checkObjects and checkLeaseKeys look for on
// a running cluster: all of the keys are read there, no sample.
func checkStoredObjects() Check {
	return Check{
		Name: "objects in files", Asks: "is anything in the files too large, or too much on one lease?",
		IDs: []string{"KVD-OBJECT-001", "KVD-OBJECT-002", "KVD-LEASE-001", "KVD-LEASE-003"}, Needs: []Need{NeedHeld},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			largest, where := int64(0), ""
			for _, s := range in.furthestStored() {
				if s.held == nil {
					continue
				}
				for _, g := range s.held.Groups {
					if g.Largest > largest {
						largest, where = g.Largest, groupName(g)
					}
					if f, ok := in.tooLarge(g, s.path, s.path, s.path); ok {
						out = append(out, f)
					}
				}
				out = append(out, in.storedLeases(s)...)
			}
			if where == "" {
				return out, "nothing is stored"
			}
			return out, fmt.Sprintf("the largest has %s, in %s", size(largest), where)
		},
	}
}

// furthestStored are the files, and of the directories of one cluster the one that has
// come furthest: what is wrong with its objects is no other's fault.
func (in *Input) furthestStored() []storedFile {
	var out []storedFile
	for _, s := range in.stored() {
		if s.v.Content == nil || s.v.Verdict == snapshot.NotRestorable {
			continue
		}
		i := -1
		for j, o := range out {
			if s.dir != nil && o.dir != nil && sameCluster(s.dir, o.dir) {
				i = j
			}
		}
		switch {
		case i < 0:
			out = append(out, s)
		case s.v.Content.Revision > out[i].v.Content.Revision:
			out[i] = s
		}
	}
	return out
}

func (in *Input) storedLeases(s storedFile) []Finding {
	var out []Finding
	for _, l := range s.held.Leases {
		if float64(l.Keys) < in.Limits.LeaseKeys {
			continue
		}
		out = append(out, Finding{ID: "KVD-LEASE-001", Severity: Warning, Subject: "lease " + l.ID, Summary: manyKeys(l.ID, l.Keys),
			Evidence: []Evidence{{What: "keys", Value: float64(l.Keys), Unit: Count, Source: s.path}},
			Remedy:   []string{"kvd keys list " + ShellWord(s.path) + " --lease " + l.ID + " --limit 10  # which keys are on it", shardLeases}})
	}
	if n := s.v.Content.Leases.Count; float64(n) >= in.Limits.Leases {
		out = append(out, Finding{ID: "KVD-LEASE-003", Severity: Warning, Subject: s.path, Summary: fmt.Sprintf("there are %s in %s: each is looked at by the leader, and all are begun anew by an election", counted(n, "lease"), s.path),
			Evidence: []Evidence{{What: "leases", Value: float64(n), Unit: Count, Source: s.path}},
			Remedy:   []string{"find the client that makes a lease per request"}})
	}
	return out
}
