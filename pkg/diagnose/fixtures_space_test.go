package diagnose_test

import (
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/metrics"
)

// fill gives every member a file of a size, and so much of it in use.
func (w *world) fill(quota, size, inUse int64) {
	for id := uint64(1); id <= 3; id++ {
		w.status(id, func(s *cluster.Status) { s.Quota, s.DBSize, s.DBInUse = quota, size, inUse })
	}
}

// still has nothing written between the looks.
func (w *world) still() {
	for id := uint64(1); id <= 3; id++ {
		w.status(id, func(s *cluster.Status) { s.Revision = 50200 })
	}
}

// stored sets what the keys were found to be.
func (w *world) stored(keys, oldest, head int64, live float64) {
	u := w.in.Keys
	u.Keys, u.Oldest, u.Revision = keys, oldest, head
	u.InPages, u.Live = keyspace.Estimate{Bytes: live}, keyspace.Estimate{Bytes: live}
	u.Groups = []keyspace.Group{{Prefix: "/registry/pods/", Resource: "pods", Keys: keys, Bytes: u.Live, Share: 1, Largest: 8192}}
}

func spaceFixtures() []fixture {
	return []fixture{
		{"nospace: full of history, nobody compacts", func(w *world) {
			w.alarm(1, cluster.AlarmNoSpace)
			w.fill(16*mib, 16*mib, 16*mib)
			w.stored(50, 1, 4000, 400*1024)
		}, []string{"KVD-SPACE-001 critical", "KVD-SPACE-002 critical", "KVD-SPACE-002 critical", "KVD-SPACE-005 warning"}},
		{"nospace: full of free pages", func(w *world) {
			w.alarm(1, cluster.AlarmNoSpace)
			w.alarm(2, cluster.AlarmNoSpace)
			w.alarm(3, cluster.AlarmNoSpace)
			w.fill(16*mib, 16*mib, 2*mib)
			w.stored(50, 4000, 4010, 2*mib-emptyFile)
		}, []string{"KVD-SPACE-001 critical", "KVD-SPACE-004 warning", "KVD-SPACE-004 warning", "KVD-SPACE-004 warning"}},
		{"nospace: nobody asks for permissions before 3.6", func(w *world) {
			w.alarm(1, cluster.AlarmNoSpace)
			w.fill(64*mib, 16*mib, 15*mib)
			w.stored(2000, 4000, 4010, 15*mib-emptyFile)
			w.both(func(v *cluster.View) {
				for i := range v.Members {
					v.Members[i].Status.Version = "3.5.35"
				}
			})
			w.in.Auth = &diagnose.Auth{Enabled: true, Source: "users and roles"}
		}, []string{"KVD-SPACE-001 critical", "KVD-VERSION-002 critical"}},
		{"nospace: permissions are asked for from 3.6 on", func(w *world) {
			w.alarm(1, cluster.AlarmNoSpace)
			w.fill(64*mib, 16*mib, 15*mib)
			w.stored(2000, 4000, 4010, 15*mib-emptyFile)
			w.in.Auth = &diagnose.Auth{Enabled: true, Source: "users and roles"}
		}, []string{"KVD-SPACE-001 critical"}},
		{"nospace: full of leases", func(w *world) {
			w.alarm(1, cluster.AlarmNoSpace)
			w.fill(8*mib, 8*mib, 8*mib)
			w.stored(20, 1, 41, 20*1024)
			w.in.Leases.Total = 106000
		}, []string{"KVD-LEASE-003 warning", "KVD-SPACE-001 critical", "KVD-SPACE-002 critical", "KVD-SPACE-002 critical"}},
		{"nospace: full of fewer leases, by its quota", func(w *world) {
			w.alarm(1, cluster.AlarmNoSpace)
			w.fill(4*mib, 4*mib, 4*mib)
			w.stored(20, 1, 41, 20*1024)
			w.in.Leases.Total = 45000
		}, []string{"KVD-LEASE-003 warning", "KVD-SPACE-001 critical", "KVD-SPACE-002 critical", "KVD-SPACE-002 critical"}},
		{"leases: as many in a file that is far from its quota", func(w *world) {
			w.fill(64*mib, 4*mib, 4*mib)
			w.stored(20, 1, 41, 20*1024)
			w.in.Leases.Total = 45000
		}, nil},
		{"nospace: full of live data", func(w *world) {
			for id := uint64(1); id <= 3; id++ {
				w.alarm(id, cluster.AlarmNoSpace)
			}
			w.fill(16*mib, 16*mib, 16*mib)
			w.stored(1700, 4000, 4010, 16*mib-emptyFile)
		}, []string{"KVD-SPACE-001 critical", "KVD-SPACE-007 warning"}},
		{"nospace: the quota was raised, the alarm stayed", func(w *world) {
			w.alarm(1, cluster.AlarmNoSpace)
			w.fill(64*mib, 16*mib, 15*mib)
			w.stored(2000, 4000, 4010, 15*mib-emptyFile)
		}, []string{"KVD-SPACE-001 critical"}},
		{"nospace: one small member caps all", func(w *world) {
			w.alarm(3, cluster.AlarmNoSpace)
			w.fill(64*mib, 16*mib, 15*mib)
			w.stored(2000, 4000, 4010, 15*mib-emptyFile)
			w.status(3, func(s *cluster.Status) { s.Quota = 16 * mib })
		}, []string{"KVD-SPACE-001 critical", "KVD-SPACE-003 critical"}},

		{"health probes: one fails because of the alarm", func(w *world) {
			w.alarm(1, cluster.AlarmNoSpace)
			w.fill(64*mib, 16*mib, 15*mib)
			w.stored(2000, 4000, 4010, 15*mib-emptyFile)
			w.grow(1, "etcd_server_health_failures", 2)
		}, []string{"KVD-OPS-001 warning", "KVD-SPACE-001 critical"}},
		{"health probes: failures without an alarm are another matter", func(w *world) { w.grow(1, "etcd_server_health_failures", 2) }, nil},

		{"quota: at 85 %", func(w *world) {
			w.fill(100*mib, 85*mib, 60*mib)
			w.stored(2000, 4000, 4010, 30*mib)
		}, []string{"KVD-SPACE-002 warning", "KVD-SPACE-002 warning", "KVD-SPACE-002 warning"}},
		{"quota: one at 98 %", func(w *world) {
			w.status(2, func(s *cluster.Status) { s.DBSize = 2 * gib * 98 / 100; s.DBInUse = s.DBSize * 6 / 10 })
			w.in.Keys.Member = "m3 (3)"
		}, []string{"KVD-SPACE-002 critical"}},
		{"quota: at 79 %", func(w *world) {
			w.fill(100*mib, 79*mib, 60*mib)
			w.stored(2000, 4000, 4010, 30*mib)
		}, nil},
		{"quota: the file's length is nobody's number", func(w *world) { w.fill(16*mib, 20480, 20480); w.stored(3, 1, 4, 200) }, nil},
		{"quota: servers before 3.6 do not tell", func(w *world) {
			for id := uint64(1); id <= 3; id++ {
				w.status(id, func(s *cluster.Status) { s.QuotaKnown, s.Version, s.Quota = false, "3.5.33", 0 })
			}
		}, nil},

		{"quota settings: one differs", func(w *world) { w.status(3, func(s *cluster.Status) { s.Quota = 8 * gib }) }, []string{"KVD-SPACE-003 warning"}},
		{"quota settings: above 8 GiB everywhere", func(w *world) { w.fill(20*gib, 40*mib, 30*mib) }, []string{"KVD-SPACE-008 info", "KVD-SPACE-008 info", "KVD-SPACE-008 info"}},
		{"quota settings: switched off", func(w *world) { w.fill(-1, 40*mib, 30*mib) }, []string{"KVD-SPACE-008 info", "KVD-SPACE-008 info", "KVD-SPACE-008 info"}},
		{"quota settings: 8 GiB is well", func(w *world) { w.fill(8*gib, 40*mib, 30*mib) }, nil},

		{"free pages: of a file that uses its quota up", func(w *world) { w.fill(100*mib, 60*mib, 20*mib); w.stored(2000, 4000, 4010, 15*mib) },
			[]string{"KVD-SPACE-004 warning", "KVD-SPACE-004 warning", "KVD-SPACE-004 warning"}},
		{"free pages: far from the quota", func(w *world) { w.fill(2*gib, 60*mib, 20*mib); w.stored(2000, 4000, 4010, 15*mib) }, nil},

		{"API server compacts: it did an hour ago", func(w *world) {
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", ModRevision: 45000, Head: 50200, Age: time.Hour, Kept: time.Hour, Source: "Leases"}
		}, []string{"KVD-SPACE-009 warning"}},
		{"API server compacts: it never did, for an hour", func(w *world) {
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", Head: 50200, Age: time.Hour, Kept: time.Hour, Source: "Leases"}
		}, []string{"KVD-SPACE-009 warning"}},
		{"revisions kept: an API server's marker is ahead of the cluster", func(w *world) {
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", ModRevision: 50100, Compacts: 90000, Head: 50200, Source: "m1"}
		}, []string{"KVD-OPS-007 warning"}},
		{"revisions kept: an API server's marker is where it should be", func(w *world) {
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", ModRevision: 50200, Compacts: 50200, Head: 50200, Source: "m1"}
		}, nil},
		{"API server compacts: an old marker, a young history, and the keys were not read", func(w *world) {
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", ModRevision: 45000, Head: 50200, Age: time.Hour, Kept: 3 * time.Minute, Source: "Leases"}
			w.in.Keys = nil
		}, nil},
		{"API server compacts: it is up for three minutes", func(w *world) {
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", Head: 50200, Age: 3 * time.Minute, Kept: 3 * time.Minute, Source: "Leases"}
		}, nil},
		{"API server compacts: it did so a while ago, and etcd does since", func(w *world) {
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", ModRevision: 20, Head: 50200, Age: 10 * time.Minute, Kept: 10 * time.Minute, Source: "Leases"}
		}, nil},
		{"API server compacts: nothing was written since", func(w *world) {
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", ModRevision: 50200, Head: 50200, Age: time.Hour, Kept: time.Hour, Source: "Leases"}
		}, nil},
		{"API server may compact: not the key beside its prefix", func(w *world) { w.user("kube", true, "/registry/", "/registry0") }, []string{"KVD-AUTH-001 warning"}},
		{"API server may compact: not yet, users are not asked for", func(w *world) { w.user("kube", false, "/registry/", "/registry0") }, []string{"KVD-AUTH-001 info"}},
		{"API server may compact: it has both", func(w *world) {
			w.user("kube", true, "/registry/", "/registry0", "compact_rev_key", "")
		}, nil},
		{"API server may compact: it has everything", func(w *world) { w.user("kube", true, "\x00", "\x00") }, nil},
		{"API server may compact: somebody with one resource is none", func(w *world) { w.user("backup", true, "/registry/secrets/", "/registry/secrets0") }, nil},
		{"API server may compact: the users of many clusters are one finding", func(w *world) {
			w.in.Keys.Groups = append(w.in.Keys.Groups, keyspace.Group{Prefix: "/ns_b/pods/", Resource: "pods", Keys: 1})
			w.in.Keys.Layout = keys.Default().With("ns_b")
			w.user("a", true, "/ns_b/", "\\0") // Kamaji's range: up to a backslash and a zero
			all := w.in.Auth.Users
			for range 50 {
				all = append(all, all[1])
			}
			w.in.Auth.Users = all
		}, []string{"KVD-AUTH-001 warning"}},
		{"API server may compact: it may not, and etcd does", func(w *world) {
			w.user("kube", true, "/registry/", "/registry0")
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", Head: 50200, Age: 8 * time.Minute, Kept: 8 * time.Minute, Source: "Leases"}
		}, []string{"KVD-AUTH-001 info"}},
		{"API server may compact: it may not, and the cluster is young", func(w *world) {
			w.user("kube", true, "/registry/", "/registry0")
			w.in.Keys.Oldest = 1
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", Head: 50200, Age: 8 * time.Minute, Kept: 8 * time.Minute, Source: "Leases"}
		}, []string{"KVD-AUTH-001 warning", "KVD-SPACE-005 info"}},
		{"API server may compact: somebody with a namespace of that name is none", func(w *world) { w.user("x", true, "/registryx/", "/registryx0") }, nil},
		{"history: as many revisions of few keys as etcd's revision mode is told to keep", func(w *world) {
			w.stored(60, 17001, 42001, 15*1024)
			w.still()
			w.gauge(2, metrics.CompactedLast, float64(start.Add(-5*time.Minute).Unix()), float64(start.Add(-5*time.Minute).Unix()))
		}, nil},
		{"history: the same, and the last compaction was hours ago", func(w *world) {
			w.stored(60, 17001, 42001, 15*1024)
			w.still()
			w.gauge(2, metrics.CompactedLast, float64(start.Add(-5*time.Hour).Unix()), float64(start.Add(-5*time.Hour).Unix()))
		}, []string{"KVD-SPACE-005 warning"}},
		{"history: the same, and the member was started since", func(w *world) {
			w.stored(60, 17001, 42001, 15*1024)
			w.still()
			w.gauge(2, metrics.CompactedLast, 0, 0)
		}, []string{"KVD-SPACE-005 warning"}},
		{"history: a compactor that stopped", func(w *world) {
			w.stored(200, 5, 60005, 200*1024)
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", ModRevision: 5}
		}, []string{"KVD-SPACE-005 warning"}},
		{"history: a busy cluster just after a compaction, far from its quota", func(w *world) {
			w.fill(2*gib, 165*mib, 165*mib)
			w.stored(9000, 76000, 100000, 73*mib)
		}, nil},
		{"history: the same, and nobody writes", func(w *world) {
			w.fill(2*gib, 165*mib, 165*mib)
			w.stored(9000, 76000, 100000, 73*mib)
			w.still()
		}, nil},
		{"history: many revisions of few keys, all of the last ten minutes", func(w *world) {
			w.stored(200, 40000, 64000, 200*1024)
			w.status(2, func(s *cluster.Status) { s.Revision = 63600 })
			w.now(2, func(m *cluster.Member) { m.Status.Revision = 64000 })
		}, nil},
		{"history: the same, and nobody writes any more", func(w *world) {
			w.stored(200, 40000, 64000, 200*1024)
			w.still()
		}, []string{"KVD-SPACE-005 warning"}},
		{"history: as much of a large quota, but old by the clock", func(w *world) {
			w.fill(1*gib, 265*mib, 265*mib)
			w.stored(9000, 76000, 100000, 73*mib)
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", ModRevision: 99900, Head: 100000, Age: time.Minute, Kept: time.Hour, Source: "Leases"}
		}, []string{"KVD-SPACE-005 warning"}},
		{"history: young by the clock", func(w *world) {
			w.fill(1*gib, 265*mib, 265*mib)
			w.stored(9000, 76000, 100000, 73*mib)
			w.in.Compactor = &diagnose.Compactor{Key: "compact_rev_key", ModRevision: 99900, Head: 100000, Age: time.Minute, Kept: 8 * time.Minute, Source: "Leases"}
		}, nil},
		{"history: below its limit of bytes, of a small quota", func(w *world) {
			w.fill(16*mib, 12*mib, 12*mib)
			w.stored(50, 4000, 4300, 2*mib-emptyFile)
			w.in.Keys.Groups[0].Share = 0.4
			w.still()
		}, nil},
		{"history: nothing was ever compacted", func(w *world) { w.stored(500, 1, 9000, 20*mib) }, []string{"KVD-SPACE-005 info"}},
		{"history: a young cluster", func(w *world) { w.stored(500, 1, 900, 20*mib) }, nil},
		{"history: ten minutes of a busy cluster", func(w *world) { w.stored(100000, 5_000_000, 5_400_000, 25*mib) }, nil},
		{"history: much of a large file", func(w *world) { w.fill(8*gib, 1*gib, 900*mib); w.stored(100000, 5_000_000, 5_400_000, 100*mib) }, []string{"KVD-SPACE-005 warning"}},

		{"growth: full within the hour", func(w *world) {
			w.fill(2*gib, 1400*mib, 1300*mib)
			w.stored(100000, 5_000_000, 5_400_000, 1250*mib)
			w.in.Keys.Groups[0].Share = 0.4
			w.now(1, func(m *cluster.Member) { m.Status.DBInUse += 4 * mib })
		}, []string{"KVD-SPACE-006 warning"}},
		{"growth: full in minutes", func(w *world) {
			w.fill(2*gib, 1400*mib, 1300*mib)
			w.stored(100000, 5_000_000, 5_400_000, 1250*mib)
			w.in.Keys.Groups[0].Share = 0.4
			w.now(1, func(m *cluster.Member) { m.Status.DBInUse += 100 * mib; m.Status.DBSize += 100 * mib })
		}, []string{"KVD-SPACE-006 critical"}},
		{"growth: a burst, with room for a hundred more", func(w *world) {
			w.now(1, func(m *cluster.Member) { m.Status.DBInUse += 100 * mib; m.Status.DBSize += 100 * mib })
		}, nil},
		{"growth: a burst far from the quota", func(w *world) {
			w.now(1, func(m *cluster.Member) { m.Status.DBInUse += 3 * mib })
		}, nil},
		{"growth: a compaction between the samples", func(w *world) { w.now(1, func(m *cluster.Member) { m.Status.DBInUse -= 9 * mib }) }, nil},

		{"what is stored: one resource fills the file", func(w *world) {
			w.fill(64*mib, 48*mib, 48*mib)
			w.stored(1700, 4000, 4010, 46*mib)
		}, []string{"KVD-SPACE-007 warning"}},
		{"what is stored: one namespace fills the file, with several resources", func(w *world) {
			w.fill(64*mib, 48*mib, 48*mib)
			w.stored(1700, 4000, 4010, 46*mib)
			w.in.Keys.Groups[0].Share = 0.4
			w.in.Keys.Spaces = []keyspace.Space{{Namespace: "ci", Keys: 1500, Bytes: 40 * mib, Share: 0.85}}
		}, []string{"KVD-SPACE-007 warning"}},
		{"what is stored: several resources in several namespaces", func(w *world) {
			w.fill(64*mib, 48*mib, 48*mib)
			w.stored(1700, 4000, 4010, 46*mib)
			w.in.Keys.Groups[0].Share = 0.4
			w.in.Keys.Spaces = []keyspace.Space{{Namespace: "ci", Keys: 600, Bytes: 18 * mib, Share: 0.4}}
		}, nil},
		{"what is stored: over half of little", func(w *world) { w.stored(1700, 45000, 50200, 20*mib) }, nil},

		{"objects: a value near the limit", func(w *world) { w.in.Keys.Groups[0].Largest = 1500000 }, []string{"KVD-OBJECT-001 warning"}},
		{"objects: large Endpoints", func(w *world) {
			w.in.Keys.Groups[0] = keyspace.Group{Prefix: "/registry/services/endpoints/", Resource: "endpoints", Keys: 3, Bytes: keyspace.Estimate{Bytes: 500000}, Share: 0.4, Largest: 300000}
		}, []string{"KVD-OBJECT-002 warning"}},
		{"objects: fat custom resources", func(w *world) {
			w.in.Keys.Groups[0] = keyspace.Group{Prefix: "/registry/x.example.com/things/", Resource: "things.x.example.com", Keys: 200, Bytes: keyspace.Estimate{Bytes: 18 * mib}, Share: 0.4, Largest: 100000}
		}, []string{"KVD-OBJECT-002 warning"}},
		{"objects: one large Secret is usual", func(w *world) { w.in.Keys.Groups[0].Largest = 300000 }, nil},

		{"who writes: one key", func(w *world) {
			w.in.Writes = &diagnose.Writes{Member: "m2", From: 45201, To: 50200, Distinct: 12, Keys: []diagnose.KeyWrites{{Key: []byte("/app/counter"), Writes: 2400}, {Key: []byte("/app/b\x00"), Writes: 1300}}}
		}, []string{"KVD-CHURN-001 warning"}},
		{"who writes: many nodes", func(w *world) {
			w.in.Writes = &diagnose.Writes{Member: "m2", From: 45201, To: 50200, Distinct: 900, Keys: []diagnose.KeyWrites{{Key: []byte("/registry/leases/kube-node-lease/n1"), Writes: 60}}}
		}, nil},
		{"who writes: few revisions", func(w *world) {
			w.in.Writes = &diagnose.Writes{Member: "m2", From: 1, To: 50, Distinct: 1, Keys: []diagnose.KeyWrites{{Key: []byte("a"), Writes: 50}}}
		}, nil},

		{"written bytes: Nodes with every heartbeat", func(w *world) {
			w.written(18*mib, "nodes", "/registry/minions/")
		}, []string{"KVD-CHURN-002 warning"}},
		{"written bytes: Endpoints of a large Service", func(w *world) {
			w.written(80*mib, "endpoints", "/registry/services/endpoints/")
		}, []string{"KVD-CHURN-002 warning"}},
		{"written bytes: by nobody we know", func(w *world) {
			w.written(80*mib, "", "/app/")
			w.in.Writes = nil
		}, []string{"KVD-CHURN-002 warning"}},
		{"written bytes: the Leases of a thousand nodes", func(w *world) {
			w.written(1.1*mib, "leases.coordination.k8s.io", "/registry/leases/")
		}, nil},
		{"written bytes: the same Nodes, and a quota for them", func(w *world) {
			w.written(18*mib, "nodes", "/registry/minions/")
			for id := uint64(1); id <= 3; id++ {
				w.status(id, func(s *cluster.Status) { s.Quota = 8 * gib })
			}
		}, nil},
		{"written bytes: pods that are new", func(w *world) {
			w.written(80*mib, "pods", "/registry/pods/")
			for id := uint64(1); id <= 3; id++ {
				w.gauge(id, "etcd_debugging_mvcc_keys_total", 1000, 1995)
			}
		}, nil},
		{"written bytes: little, and a tiny quota", func(w *world) {
			w.written(mib, "nodes", "/registry/minions/")
			for id := uint64(1); id <= 3; id++ {
				w.status(id, func(s *cluster.Status) { s.Quota = 100 * mib })
			}
		}, nil},
	}
}

// written has all members count so many bytes put between the samples, of which the
// latest revisions have a tenth.
func (w *world) written(bytes float64, resource, prefix string) {
	for id := uint64(1); id <= 3; id++ {
		w.gauge(id, "etcd_debugging_mvcc_total_put_size_in_bytes", 80*mib, 80*mib+bytes)
		w.grow(id, "etcd_mvcc_put_total", 1000)
	}
	name := resource
	if name == "" {
		name = prefix
	}
	w.in.Writes = &diagnose.Writes{Member: "m2", From: 45201, To: 50200, Distinct: 900, Bytes: int64(bytes / 10), Keys: []diagnose.KeyWrites{{Key: []byte(prefix + "n1"), Writes: 60}},
		Groups: []diagnose.GroupWrites{{Name: name, Resource: resource, Prefix: prefix, Writes: 100, Bytes: int64(bytes / 11)}}}
}

// emptyFile is what a file takes without keys.
const emptyFile = 5 * 4096

// user adds one that may read and write some ranges: keys with their ends in turn.
func (w *world) user(name string, enabled bool, ranges ...string) {
	u := diagnose.AuthUser{Name: name, Roles: []string{name + "-role"}}
	for i := 0; i < len(ranges); i += 2 {
		r := diagnose.KeyRange{Key: []byte(ranges[i]), End: []byte(ranges[i+1])}
		u.Read, u.Write = append(u.Read, r), append(u.Write, r)
	}
	w.in.Auth = &diagnose.Auth{Enabled: enabled, Source: "users and roles", Users: []diagnose.AuthUser{{Name: "root", Roles: []string{"root"}}, u}}
}
