package diagnose

import "fmt"

// checkLeaseKeys looks for leases that many keys hang on: they go in one
// transaction, while nothing else is applied (Revoke in server/lease/lessor.go).
func checkLeaseKeys() Check {
	return Check{
		Name: "keys on leases", Asks: "does one lease hold too many keys?", IDs: []string{"KVD-LEASE-001", "KVD-LEASE-003"}, Needs: []Need{NeedLeases}, Blind: leasesUnseen,
		Look: func(in *Input) ([]Finding, string) {
			l := in.Leases
			var out []Finding
			most := 0
			for _, one := range l.Asked {
				most = max(most, one.Keys)
				if float64(one.Keys) < in.Limits.LeaseKeys {
					continue
				}
				out = append(out, Finding{ID: "KVD-LEASE-001", Severity: Warning, Subject: "lease " + one.ID,
					Summary:  manyKeys(one.ID, int64(one.Keys)),
					Evidence: []Evidence{{What: "keys", Value: float64(one.Keys), Unit: Count, Source: "lease of " + l.Member, At: in.At}, {What: "granted for", Value: float64(one.Granted), Unit: Seconds, Source: "lease of " + l.Member, At: in.At}},
					Remedy:   []string{"kvd lease show " + one.ID, shardLeases}})
			}
			if f, full := in.fullOfLeases(); full {
				out = append(out, f)
			} else if float64(l.Total) >= in.Limits.Leases {
				out = append(out, Finding{ID: "KVD-LEASE-003", Severity: Warning, Subject: "cluster", Summary: fmt.Sprintf("there are %s: each is looked at by the leader, and all are begun anew by an election", counted(l.Total, "lease")),
					Evidence: []Evidence{{What: "leases", Value: float64(l.Total), Unit: Count, Source: "list of " + l.Member, At: in.At}},
					Remedy:   []string{"kvd lease list --keys", leasesOfNobody, "find the client that makes a lease per request"}})
			}
			return out, fmt.Sprintf("%s; the most keys on one of %d asked: %d", counted(l.Total, "lease"), len(l.Asked), most)
		},
	}
}

// fullOfLeases reports leases, however few, that take most of a file which is near its
// quota: they are no keys and have no history, so that nothing else shows them, and what
// frees everything else leaves them.
func (in *Input) fullOfLeases() (Finding, bool) {
	for _, m := range in.view().Answered() {
		used, ok := m.Status.UsageRatio()
		share := float64(in.leaseBytes()) / float64(max(1, m.Status.DBSize))
		if !ok || used < in.Limits.QuotaWarning || share < in.Limits.ShareRatio {
			continue
		}
		return Finding{ID: "KVD-LEASE-003", Severity: Warning, Subject: "cluster",
			Summary: fmt.Sprintf("%s take about %s of the file of %s, which is at %s of its quota: no compaction frees them, and a defragmentation packs them and no more", counted(in.Leases.Total, "lease"),
				percent(min(1, share)), name(m), percent(used)),
			Evidence: []Evidence{{What: "leases", Value: float64(in.Leases.Total), Unit: Count, Source: "list of " + in.Leases.Member, At: in.At}, status(m, "file of "+name(m), float64(m.Status.DBSize), Bytes),
				{What: "about what they take", Value: float64(in.leaseBytes()), Unit: Bytes, Source: "62 bytes each", At: in.At}},
			Remedy: []string{leasesOfNobody, "find the client that makes a lease per request, and stop it"}}, true
	}
	return Finding{}, false
}

// leasesOfNobody is what frees a file that is full of leases, under NOSPACE too.
const leasesOfNobody = "kvd lease revoke --without-keys --dry-run  # those without keys can go, also while NOSPACE is raised; those that are named take their keys along"

// shardLeases is what helps against many keys on one lease.
const shardLeases = "use more leases with fewer keys on each; kube-apiserver puts 1000 events on one"

func manyKeys(lease string, n int64) string {
	return fmt.Sprintf("lease %s holds %s: its end is one raft entry and one revision that deletes them all, nothing is applied meanwhile, and every watcher is sent as many events", lease, counted(n, "key"))
}

// leasesUnseen says of how many leases the keys are not known, where one of them may
// hold too many: not where there are fewer keys than that, or the leases of all keys
// were read.
func leasesUnseen(in *Input) []Missing {
	l, k := in.Leases, in.Keys
	unseen := l.Total - len(l.Asked)
	if unseen <= 0 || k != nil && (float64(k.Keys) < in.Limits.LeaseKeys || k.Exact && len(k.Leased) < leasedKept) {
		return nil
	}
	most := 0
	for _, one := range l.Asked {
		most = max(most, one.Keys)
	}
	return []Missing{{Need: NeedLeases, ByChoice: true, Hint: "kvd lease list --keys",
		Why: fmt.Sprintf("%d of %s were asked, those with most keys of the sample among them: the most keys on one, %d; what the others hold is not known", len(l.Asked), counted(l.Total, "lease"), most)}}
}

// leasedKept is how many leases a sample tells apart at most (Leased in pkg/ops/keyspace).
const leasedKept = 1000

// leaseSlack is what whole seconds and the time between an answer and the sample
// take away, in seconds.
const leaseSlack = 2

// checkLeaseAge looks for leases that an election gave their whole time anew
// (Promote in server/lease/lessor.go), without anybody having renewed them.
func checkLeaseAge() Check {
	return Check{
		Name: "leases end", Asks: "do leases end in time?", IDs: []string{"KVD-LEASE-002"}, Needs: []Need{NeedLeases, NeedTwo, NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			renewed := 0.0
			for _, d := range in.deltas() {
				n, _ := d.Counter("etcd_debugging_lease_renewed_total", nil)
				renewed += n
			}
			elections := electionsBetween(in)
			longer := 0
			var e []Evidence
			for _, l := range in.Leases.Asked {
				if l.Before == nil || l.Now == nil || float64(*l.Before-*l.Now) > in.interval().Seconds()-leaseSlack {
					continue // it has come nearer to its end by the time that has passed
				}
				longer++
				if len(e) < 6 {
					e = append(e, Evidence{What: "left of lease " + l.ID + ", before", Value: float64(*l.Before), Unit: Seconds, Source: "lease of " + in.Leases.Member, At: in.At},
						Evidence{What: "left of lease " + l.ID + ", now", Value: float64(*l.Now), Unit: Seconds, Source: "lease of " + in.Leases.Member, At: in.At})
				}
			}
			if elections == 0 || renewed > 0 || longer == 0 || in.interval().Seconds() < 2*leaseSlack {
				return nil, fmt.Sprintf("%.0f renewals, %.0f elections between the samples", renewed, elections)
			}
			e = append(e, Evidence{What: "renewals", Value: renewed, Unit: Count, Source: "metrics of all members", At: in.At}, Evidence{What: "elections", Value: elections, Unit: Count, Source: "terms", At: in.At})
			return []Finding{{ID: "KVD-LEASE-002", Severity: Warning, Subject: "cluster", Evidence: e, ExplainedBy: []string{"KVD-RAFT-003"},
				Summary: fmt.Sprintf("leases outlive their time: of %s nobody renewed any, and %d have more left than they should by now, since an election begins each anew", counted(len(in.Leases.Asked), "lease"), longer),
				Remedy:  []string{"end the elections first: then they end by themselves", "--feature-gates=LeaseCheckpoint=true,LeaseCheckpointPersist=true keeps what is left over an election (etcd 3.6 and later)"}}}, ""
		},
	}
}

func electionsBetween(in *Input) float64 {
	n := 0.0
	for _, m := range in.view().Answered() {
		if old, ok := in.before(m.ID); ok && m.Status.RaftTerm > old.Status.RaftTerm {
			n = max(n, float64(m.Status.RaftTerm-old.Status.RaftTerm))
		}
	}
	return n
}

// checkLoggedLeases looks at how much of a log are leases.
func checkLoggedLeases() Check {
	return Check{
		Name: "leases in the log", Asks: "is a log filled by leases?", IDs: []string{"KVD-LEASE-004"}, Needs: []Need{NeedDirs},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			most := int64(0)
			for _, d := range in.Dirs {
				most = max(most, d.Grants.Count)
				if float64(d.Grants.Count) < in.Limits.LoggedGrants || float64(d.Grants.Count) < in.Limits.LoggedShare*float64(d.Length) {
					continue
				}
				out = append(out, Finding{ID: "KVD-LEASE-004", Severity: Warning, Subject: d.Path,
					Summary: fmt.Sprintf("%s of the %s in the log grant a lease: raft entries and WAL on every member, and nothing of it shows in the history",
						counted(d.Grants.Count, "entry"), counted(d.Length, "entry")),
					Evidence: []Evidence{{What: "grants", Value: float64(d.Grants.Count), Unit: Count, Source: d.Log.Dir}, {What: "entries", Value: float64(d.Length), Unit: Count, Source: d.Log.Dir},
						{What: "bytes of grants", Value: float64(d.Grants.Bytes), Unit: Bytes, Source: d.Log.Dir}},
					Remedy: []string{"kvd wal dump " + d.logArg() + " --type lease_grant  # when, and by whom", "keep one lease alive in each client, instead of one for each request"}})
			}
			return out, counted(most, "grant")
		},
	}
}

// checkLeaseChurn looks at how fast leases are made: each is a raft entry on every
// member, and none shows in the history.
func checkLeaseChurn() Check {
	return Check{
		Name: "lease churn", Asks: "are leases made at a sane rate?", IDs: []string{"KVD-LEASE-004"}, Needs: []Need{NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			most := -1.0
			var busiest memberDelta
			for _, d := range in.deltas() { // every member applies every grant: the most is the cluster's
				if r, ok := d.Rate("etcd_debugging_lease_granted_total", nil); ok && r > most {
					most, busiest = r, d
				}
			}
			if most < in.Limits.LeaseRate {
				return nil, fmt.Sprintf("%.1f grants/s", max(0, most))
			}
			puts, _ := busiest.Rate("etcd_mvcc_put_total", nil)
			return []Finding{{ID: "KVD-LEASE-004", Severity: Warning, Subject: "cluster",
				Summary:  fmt.Sprintf("%.0f leases are granted each second: raft entries and WAL on every member, and nothing of it shows in the history", most),
				Evidence: []Evidence{busiest.evidence("leases granted", most, Rate), busiest.evidence("puts", puts, Rate)},
				Remedy:   []string{"kvd wal stats DATA-DIR  # the share of lease_grant, and by whom", "keep one lease alive in each client, instead of one for each request"}}}, ""
		},
	}
}

// checkLostLeases looks for keys that wait for the end of a lease that is not there.
func checkLostLeases() Check {
	return Check{
		Name: "keys without their lease", Asks: "does every lease that keys are on exist?", IDs: []string{"KVD-LEASE-005"}, Needs: []Need{NeedLeases, NeedKeys},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			for _, l := range in.Leases.Lost {
				out = append(out, Finding{ID: "KVD-LEASE-005", Severity: Warning, Subject: "lease " + l.ID,
					Summary: fmt.Sprintf("%s is on lease %s, which does not exist: nothing will ever delete it", printable(l.Key), l.ID),
					Evidence: []Evidence{{What: "key", Text: printable(l.Key), Source: "sample of " + in.Keys.Member, At: in.At}, {What: "keys on it in the sample", Value: float64(l.Keys), Unit: Count, Source: "sample of " + in.Keys.Member, At: in.At},
						{What: "the lease", Text: "is not there", Source: "lease of " + in.Leases.Member, At: in.At}},
					Remedy: []string{"kvd keys usage --by lease  # how many keys are on it", "kvd keys get " + ShellWord(printable(l.Key)) + "  # delete what is a lock or an event of somebody who is gone", "kvd diagnose --hash  # do the members agree?"}})
			}
			on := int64(0)
			for _, l := range in.Keys.Leased {
				on += l.Keys
			}
			return out, fmt.Sprintf("%s of the sample are on %s, all there", counted(on, "key"), counted(len(in.Keys.Leased), "lease"))
		},
	}
}
