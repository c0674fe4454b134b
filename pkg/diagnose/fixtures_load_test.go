package diagnose_test

import (
	"fmt"
	"slices"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
)

func loadFixtures() []fixture {
	return []fixture{
		{"disk: one slow of three", func(w *world) { w.fsync[2] = append(repeat(0.002, 190), repeat(0.3, 10)...) }, []string{"KVD-DISK-001 warning"}},
		{"disk: all slow", func(w *world) {
			for id := uint64(1); id <= 3; id++ {
				w.fsync[id] = repeat(0.05, 200)
			}
		}, []string{"KVD-DISK-001 warning", "KVD-DISK-001 warning", "KVD-DISK-001 warning"}},
		{"disk: a slow one, and what follows", func(w *world) {
			w.fsync[1], w.commit[1] = repeat(0.3, 100), repeat(0.4, 60)
			w.grow(1, "etcd_server_slow_apply_total", 40)
			w.grow(1, "etcd_server_heartbeat_send_failures_total", 9)
			w.grow(1, "etcd_server_leader_changes_seen_total", 1)
		}, []string{"KVD-DISK-001 warning", "KVD-DISK-002 warning", "KVD-RAFT-003 warning", "KVD-READ-001 warning"}},
		{"disk: two slow fsyncs in a hundred years", func(w *world) { w.fsync[2] = append(repeat(0.002, 998), 0.4, 0.4) }, nil},
		{"disk: of few, the slowest makes the p99", func(w *world) { w.fsync[2] = append(repeat(0.002, 60), 0.4, 0.4) }, nil},
		{"disk: too few to tell", func(w *world) { w.fsync[2] = repeat(0.4, 12) }, nil},
		{"disk: a restart between the samples", func(w *world) {
			w.fsync[2] = repeat(0.4, 200)
			w.counters[1][2]["process_start_time_seconds"] = 2000
		}, nil},
		{"disk: one sample proves nothing", func(w *world) {
			w.fsync[2] = repeat(0.4, 200)
			w.in.Before = nil
		}, nil},
		{"commits: slow by themselves", func(w *world) { w.commit[3] = repeat(0.09, 100) }, []string{"KVD-DISK-002 warning"}},
		{"commits: 16 ms are well", func(w *world) { w.commit[3] = repeat(0.016, 100) }, nil},

		{"requests: expensive ones, and a good disk", func(w *world) {
			w.grow(1, "etcd_server_slow_apply_total", 60)
			w.gauge(1, "etcd_server_proposals_pending", 180, 200)
		}, []string{"KVD-READ-001 warning"}},
		{"requests: quick ones that wait for a processor", func(w *world) {
			w.grow(1, "etcd_server_slow_apply_total", 60)
			w.ranges[1] = repeat(0.0001, 500)
		}, []string{"KVD-READ-003 info"}},
		{"requests: slow ranges", func(w *world) {
			w.grow(1, "etcd_server_slow_apply_total", 60)
			w.ranges[1] = repeat(0.9, 60)
		}, []string{"KVD-READ-001 warning"}},
		{"requests: a few", func(w *world) { w.grow(1, "etcd_server_slow_apply_total", 4) }, nil},
		{"reads and writes: somebody polls", func(w *world) {
			w.grow(1, "etcd_mvcc_range_total", 20000)
			w.grow(1, "etcd_mvcc_put_total", 100)
		}, []string{"KVD-READ-004 info"}},
		{"reads and writes: many of both", func(w *world) {
			w.grow(1, "etcd_mvcc_range_total", 20000)
			w.grow(1, "etcd_mvcc_put_total", 4000)
		}, nil},
		{"reads and writes: few of both", func(w *world) { w.grow(1, "etcd_mvcc_range_total", 900) }, nil},
		{"read indexes: late", func(w *world) { w.grow(3, "etcd_server_slow_read_indexes_total", 5) }, []string{"KVD-READ-002 warning"}},
		{"read indexes: failed", func(w *world) { w.grow(3, "etcd_server_read_indexes_failed_total", 3) }, []string{"KVD-READ-002 warning"}},
		{"read indexes: one", func(w *world) { w.grow(3, "etcd_server_read_indexes_failed_total", 1) }, nil},

		{"watchers: many lag", func(w *world) { w.gauge(2, "etcd_debugging_mvcc_slow_watcher_total", 25, 25) }, []string{"KVD-WATCH-001 warning"}},
		{"watchers: events wait", func(w *world) {
			w.gauge(2, "etcd_debugging_mvcc_slow_watcher_total", 1, 1)
			w.gauge(2, "etcd_debugging_mvcc_pending_events_total", 30000, 50000)
		}, []string{"KVD-WATCH-001 warning"}},
		{"watchers: events are left of a watch that was cancelled", func(w *world) { w.gauge(2, "etcd_debugging_mvcc_pending_events_total", 30000, 30000) }, nil},
		{"watch streams: a thousand on two, and some lag", func(w *world) {
			w.gauge(2, "etcd_debugging_mvcc_slow_watcher_total", 300, 400)
			w.gauge(2, "etcd_debugging_mvcc_watcher_total", 1000, 1000)
			w.gauge(2, "etcd_debugging_mvcc_watch_stream_total", 2, 2)
		}, []string{"KVD-WATCH-001 warning", "KVD-WATCH-002 warning"}},
		{"watch streams: a thousand on two, which keep up", func(w *world) {
			w.gauge(2, "etcd_debugging_mvcc_watcher_total", 1000, 1000)
			w.gauge(2, "etcd_debugging_mvcc_watch_stream_total", 2, 2)
		}, nil},
		{"watch streams: a thousand on two, which have just begun", func(w *world) {
			w.gauge(2, "etcd_debugging_mvcc_slow_watcher_total", 0, 400)
			w.gauge(2, "etcd_debugging_mvcc_watcher_total", 1000, 1000)
			w.gauge(2, "etcd_debugging_mvcc_watch_stream_total", 2, 2)
		}, nil},
		{"watchers: some that have just begun", func(w *world) { w.gauge(2, "etcd_debugging_mvcc_slow_watcher_total", 0, 400) }, nil},

		{"memory: it grows at once", func(w *world) { w.gauge(1, "process_resident_memory_bytes", 1*gib, 3*gib) }, []string{"KVD-MEM-001 warning"}},
		{"memory: it is large and stays, and nothing explains it", func(w *world) { w.gauge(1, "process_resident_memory_bytes", 9*gib, 9*gib) }, []string{"KVD-MEM-003 warning"}},
		{"memory: it is large, as the file is", func(w *world) {
			w.gauge(1, "process_resident_memory_bytes", 9*gib, 9*gib)
			w.gauge(1, "etcd_mvcc_db_total_size_in_bytes", 6*gib, 6*gib)
		}, nil},
		{"memory: it is large, as the index is", func(w *world) {
			w.gauge(1, "process_resident_memory_bytes", 5*gib, 5*gib)
			w.gauge(1, "etcd_debugging_mvcc_keys_total", 9e6, 9e6)
		}, nil},
		{"memory: it was large at one sample", func(w *world) { w.gauge(1, "process_resident_memory_bytes", 9*gib, 1*gib) }, nil},
		{"memory: a small member with next to nothing stored", func(w *world) { w.gauge(1, "process_resident_memory_bytes", 1*gib, 1*gib) }, nil},

		{"room in memory: the machine has less than the file", func(w *world) { w.host("m1", 6*gib, 4*gib, 0, 0) }, []string{"KVD-MEM-002 warning"}},
		{"room in memory: the machine has, its control group has not", func(w *world) { w.host("m1", 3*gib, 40*gib, 4*gib, 2*gib) }, []string{"KVD-MEM-002 warning"}},
		{"room in memory: a large file on a large machine", func(w *world) { w.host("m1", 8*gib, 40*gib, 0, 0) }, nil},
		{"room in memory: a tight control group, and a small file", func(w *world) { w.host("m1", 1*gib, 2*gib, 2*gib, 1200*mib) }, nil},
		{"room in memory: a directory that is looked at on a small machine", func(w *world) {
			w.host("/copy", 6*gib, 4*gib, 0, 0)
			w.in.Hosts[len(w.in.Hosts)-1].Runs = false
		}, []string{"KVD-MEM-002 info"}},

		{"keys on leases: 100,000 on one", func(w *world) {
			w.in.Leases.Asked = append(w.in.Leases.Asked, diagnose.LeaseLook{ID: "b2", Granted: 3600, Keys: 100000})
		}, []string{"KVD-LEASE-001 warning"}},
		{"keys on leases: kube-apiserver's events", func(w *world) {}, nil},
		{"keys without their lease: a lock that nobody ends", func(w *world) {
			w.in.Keys.Leased = []keyspace.Leased{{Lease: 0xa1, Key: "/events/1", Keys: 5}, {Lease: 0xdead, Key: "/locks/a", Keys: 1}}
			w.in.Leases.Lost = []diagnose.LostLease{{ID: "dead", Key: []byte("/locks/a"), Keys: 1}}
		}, []string{"KVD-LEASE-005 warning"}},
		{"keys without their lease: all have theirs", func(w *world) {
			w.in.Keys.Leased = []keyspace.Leased{{Lease: 0xa1, Key: "/events/1", Keys: 5}}
		}, nil},
		{"leases: very many", func(w *world) { w.in.Leases.Total = 250000 }, []string{"KVD-LEASE-003 warning"}},
		{"leases end: not while leaders change", func(w *world) {
			w.in.Leases.Asked = []diagnose.LeaseLook{{ID: "c3", Granted: 20, Before: new(int64(14)), Now: new(int64(19))}}
			for id := uint64(1); id <= 3; id++ {
				w.now(id, func(m *cluster.Member) { m.Status.RaftTerm += 2 })
			}
		}, []string{"KVD-LEASE-002 warning", "KVD-RAFT-003 warning"}},
		{"leases end: kept alive over an election", func(w *world) {
			w.in.Leases.Asked = []diagnose.LeaseLook{{ID: "c3", Granted: 20, Before: new(int64(14)), Now: new(int64(19))}}
			w.grow(1, "etcd_debugging_lease_renewed_total", 3)
			for id := uint64(1); id <= 3; id++ {
				w.now(id, func(m *cluster.Member) { m.Status.RaftTerm++ })
			}
		}, []string{"KVD-RAFT-003 warning"}},
		{"leases end: kept alive", func(w *world) {
			w.in.Leases.Asked = []diagnose.LeaseLook{{ID: "c3", Granted: 20, Before: new(int64(14)), Now: new(int64(19))}}
		}, nil},
		{"lease churn", func(w *world) {
			for id := uint64(1); id <= 3; id++ {
				w.grow(id, "etcd_debugging_lease_granted_total", 2000)
			}
		}, []string{"KVD-LEASE-004 warning"}},
		{"lease churn: a few", func(w *world) { w.grow(1, "etcd_debugging_lease_granted_total", 20) }, nil},
	}
}

func placeFixtures() []fixture {
	return []fixture{
		{"network: a peer far away", func(w *world) { w.rtt["m1>3"] = repeat(0.12, 8) }, []string{"KVD-NET-003 warning"}},
		{"network: two slow round trips of a short look", func(w *world) { w.rtt["m1>3"] = repeat(0.12, 2) }, nil},
		{"network: one slow round trip", func(w *world) { w.rtt["m1>3"] = []float64{0.001, 0.4, 0.001} }, nil},
		{"network: half a heartbeat, and a longer election timeout", func(w *world) {
			w.rtt["m1>3"] = repeat(0.12, 8)
			w.in.Limits.PeerTime, w.in.Limits.Heartbeat, w.in.Limits.ElectionTimeout = 0.25, 0.25, 2.5
		}, nil},
		{"health asked: by a probe", func(w *world) { w.grow(2, "etcd_server_health_success", 1) }, []string{"KVD-OPS-006 info"}},
		{"health asked: in its life, and not between the samples", func(w *world) { w.gauge(2, "etcd_server_health_success", 9000, 9000) }, nil},
		{"advertised: nobody can connect to 0.0.0.0", func(w *world) {
			w.both(func(v *cluster.View) { v.Members[1].ClientURLs = []string{"http://0.0.0.0:2379"} })
		}, []string{"KVD-NET-002 warning"}},
		{"advertised: http, where the member speaks TLS", func(w *world) {
			w.down(2, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseTLSRequired, Msg: "the server speaks TLS, and the endpoint says http", Hint: "start it with the right URL"})
		}, []string{"KVD-NET-002 warning", "KVD-NET-001 warning", "KVD-RAFT-007 warning"}},
		{"advertised: loopback, with peers elsewhere", func(w *world) {
			w.both(func(v *cluster.View) { v.Members[1].ClientURLs = []string{"https://127.0.0.1:2379"} })
		}, []string{"KVD-NET-002 warning"}},
		{"advertised: a peer URL of its own machine, with peers elsewhere", func(w *world) {
			w.both(func(v *cluster.View) { v.Members[1].PeerURLs = []string{"http://localhost:2380"} })
		}, []string{"KVD-NET-002 warning"}},
		{"advertised: a peer URL of its own machine beside another", func(w *world) {
			w.both(func(v *cluster.View) {
				v.Members[1].PeerURLs = []string{"http://localhost:2380", "http://10.0.0.2:2380"}
			})
		}, nil},
		{"advertised: http in the list, and the peer port speaks TLS", func(w *world) { w.schemes(3) }, []string{"KVD-NET-002 warning"}},
		{"advertised: two such members, which do not reach each other", func(w *world) { w.schemes(2, 3) }, []string{"KVD-NET-002 critical", "KVD-NET-002 critical"}},
		{"advertised: http in the list and TLS, beside a URL that is right", func(w *world) {
			w.schemes(3)
			w.both(func(v *cluster.View) { v.Members[2].PeerURLs = append(v.Members[2].PeerURLs, "https://10.0.0.3:2381") })
		}, nil},
		{"advertised: loopback, with all on one machine", func(w *world) {
			w.both(func(v *cluster.View) {
				for i := range v.Members {
					v.Members[i].ClientURLs, v.Members[i].PeerURLs = []string{fmt.Sprintf("http://127.0.0.1:2%d79", i)}, []string{fmt.Sprintf("http://127.0.0.1:2%d80", i)}
				}
			})
		}, nil},
		{"spread: all on one", func(w *world) { w.gauge(1, "etcd_debugging_mvcc_watch_stream_total", 400, 400) }, []string{"KVD-NET-004 info"}},
		{"spread: few clients", func(w *world) { w.gauge(1, "etcd_debugging_mvcc_watch_stream_total", 40, 40) }, nil},
		{"certificates: one expires soon", func(w *world) { w.cert(20) }, []string{"KVD-TLS-001 warning"}},
		{"certificates: one expires tomorrow", func(w *world) { w.cert(1) }, []string{"KVD-TLS-001 critical"}},
		{"certificates: kvd's own expires tomorrow", func(w *world) { w.ownCert(1) }, []string{"KVD-TLS-001 warning"}},
		{"certificates: one has expired", func(w *world) { w.cert(-1) }, []string{"KVD-TLS-001 critical"}},
		{"certificates: one of a day, which is renewed each day", func(w *world) { w.cert(1); w.in.Certs[0].NotBefore = w.in.At.Add(-time.Hour) }, nil},
		{"certificates: one of a day, which nobody renewed", func(w *world) {
			w.cert(0)
			w.in.Certs[0].NotBefore, w.in.Certs[0].NotAfter = w.in.At.Add(-23*time.Hour), w.in.At.Add(time.Hour)
		},
			[]string{"KVD-TLS-001 critical"}},
		{"certificates: a year", func(w *world) { w.cert(364) }, nil},
		{"backups: old", func(w *world) {
			w.in.Backups = &diagnose.Backups{Dir: "/b", Newest: "x.db", At: w.in.At.AddDate(0, 0, -3), Count: 4}
		}, []string{"KVD-OPS-002 warning"}},
		{"backups: none", func(w *world) { w.in.Backups = &diagnose.Backups{Dir: "/b"} }, []string{"KVD-OPS-002 warning"}},
		{"backups: of today", func(w *world) {
			w.in.Backups = &diagnose.Backups{Dir: "/b", Newest: "x.db", At: w.in.At.Add(-3600e9), Count: 4}
		}, nil},
	}
}

// host is the memory of the machine of a member: what it can have, what its control
// group allows, and what of that is left for files.
func (w *world) host(of string, file, free, limit, left int64) {
	w.in.Hosts = append(w.in.Hosts, diagnose.Host{Of: of, Runs: true, File: file, Total: 64 * gib, Free: free, Limit: limit, Allowed: left, Source: "/proc"})
}

// cert is a certificate with so many days left.
func (w *world) cert(days int) {
	w.in.Certs = slices.Concat(w.in.Certs, []diagnose.Cert{{Of: "m1 for clients", Subject: "CN=m1", NotBefore: w.in.At.AddDate(-1, 0, 0), NotAfter: w.in.At.AddDate(0, 0, days)}})
}

// ownCert is cert for the one that kvd shows.
func (w *world) ownCert(days int) {
	w.cert(days)
	last := &w.in.Certs[len(w.in.Certs)-1]
	last.Of, last.Own = "kvd itself, client.crt", true
}

// schemes has members speak TLS where the list has http.
func (w *world) schemes(ids ...uint64) {
	for _, id := range ids {
		url := fmt.Sprintf("http://10.0.0.%d:2380", id)
		w.both(func(v *cluster.View) { v.Members[id-1].PeerURLs = []string{url} })
		w.in.Schemes = append(w.in.Schemes, diagnose.OtherScheme{Member: id, URL: url, TLS: true})
	}
}
