package diagnose_test

import (
	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

func refused(endpoint string) error {
	return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseConnectionRefused, Op: "status", Subject: endpoint, Msg: "nobody listens there", Hint: "start it"}
}

// resize leaves n members, all voters.
func (w *world) resize(n int) {
	w.both(func(v *cluster.View) { v.Members = v.Members[:n] })
	w.in.Lists = nil
	for id := uint64(n + 1); id <= 3; id++ {
		delete(w.counters[0], id)
		delete(w.counters[1], id)
	}
}

// fourth adds a member.
func (w *world) fourth(change func(*cluster.Member)) {
	w.in.Lists = nil
	for i, m := range []*diagnose.Moment{w.in.Before, w.in.Now} {
		x := member(4, i)
		change(&x)
		m.View.Members = append(m.View.Members, x)
	}
}

func raftFixtures() []fixture {
	return []fixture{
		{"quorum: two of three cannot be reached from here, and there is a quorum", func(w *world) {
			for _, id := range []uint64{2, 3} {
				w.down(id, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseDNSFailure, Msg: "the name does not resolve"})
			}
			w.both(func(v *cluster.View) { v.Commits = true })
		}, []string{"KVD-NET-001 warning", "KVD-NET-001 warning"}},
		{"quorum: one of three cannot be reached from here, and the leader reaches it", func(w *world) {
			w.down(3, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseDNSFailure, Msg: "the name does not resolve", Hint: "give the address"})
			w.grow(1, `etcd_network_peer_received_bytes_total{From="3"}`, 4000)
		}, []string{"KVD-NET-001 warning"}},
		{"quorum: the leader cannot be reached from here, and a follower hears from it", func(w *world) {
			w.both(func(v *cluster.View) { v.Leader = 3 })
			w.down(3, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseDNSFailure, Msg: "the name does not resolve", Hint: "give the address"})
			w.grow(2, `etcd_network_peer_received_bytes_total{From="3"}`, 4000)
		}, []string{"KVD-NET-001 warning"}},
		{"quorum: one of three cannot be reached from here, and the leader does not hear from it", func(w *world) {
			w.down(3, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseDNSFailure, Msg: "the name does not resolve", Hint: "give the address"})
			w.grow(1, `etcd_network_peer_received_bytes_total{From="3"}`, 0)
			w.gauge(1, `etcd_network_active_peers{Local="1",Remote="3"}`, 1, 1) // as of one that hangs
		}, []string{"KVD-NET-001 warning", "KVD-RAFT-007 warning"}},
		{"quorum: one of three is heard, and gets no snapshot", func(w *world) {
			w.down(3, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoAnswer, Msg: "nobody answers"})
			w.grow(1, `etcd_network_peer_received_bytes_total{From="3"}`, 4000)
			w.grow(1, `etcd_network_snapshot_send_failures{To="3"}`, 90)
		}, []string{"KVD-NET-001 warning", "KVD-RAFT-007 warning"}},
		{"quorum: one of three has just ended", func(w *world) {
			old := w.in.Before.View.Members[2]
			w.down(3, refused("http://10.0.0.3:2379"))
			w.in.Before.View.Members[2] = old
			w.grow(1, `etcd_network_peer_received_bytes_total{From="3"}`, 4000)
		}, []string{"KVD-NET-001 warning", "KVD-RAFT-007 warning"}},
		{"quorum: one of three down", func(w *world) { w.down(3, refused("http://10.0.0.3:2379")) }, []string{"KVD-NET-001 warning", "KVD-RAFT-007 warning"}},
		{"quorum: two of three down", func(w *world) {
			w.down(2, refused("http://10.0.0.2:2379"))
			w.down(3, refused("http://10.0.0.3:2379"))
			w.in.Keys = nil
			w.both(func(v *cluster.View) { v.Leader = 0 })
			w.status(1, func(s *cluster.Status) { s.Leader = 0 })
		}, []string{"KVD-NET-001 critical", "KVD-NET-001 critical", "KVD-RAFT-001 critical", "KVD-RAFT-002 critical"}},
		{"quorum: two voters", func(w *world) { w.resize(2) }, []string{"KVD-RAFT-007 warning"}},
		{"quorum: four voters", func(w *world) { w.fourth(func(*cluster.Member) {}) }, []string{"KVD-RAFT-009 info"}},
		{"quorum: one voter is what it is", func(w *world) { w.resize(1); w.in.Keys.Member = "m1 (1)" }, nil},
		{"quorum: a member that refuses us is there", func(w *world) {
			w.down(3, &fault.Error{Kind: fault.Denied, Cause: cluster.CausePermissionDenied, Msg: "permission denied"})
		}, nil},
		{"leader: none", func(w *world) {
			w.both(func(v *cluster.View) { v.Leader = 0 })
		}, []string{"KVD-RAFT-001 critical"}},

		{"leader: none at the second look", func(w *world) { w.in.Now.View.Leader = 0 }, []string{"KVD-RAFT-001 warning"}},
		{"leader: one member knows none", func(w *world) {
			w.status(3, func(s *cluster.Status) { s.Leader = 0 })
		}, []string{"KVD-RAFT-013 warning"}},
		{"leader: one member had just lost it", func(w *world) {
			w.now(3, func(m *cluster.Member) { m.Status.Leader = 0 })
		}, nil},

		{"unstarted: a voter", func(w *world) {
			w.fourth(func(m *cluster.Member) { m.Name, m.ClientURLs, m.Status, m.Endpoint = "", nil, nil, "" })
		}, []string{"KVD-RAFT-007 warning", "KVD-RAFT-008 warning"}},
		{"unstarted: beside a single voter", func(w *world) {
			w.resize(1)
			w.in.Keys.Member = "m1 (1)"
			w.both(func(v *cluster.View) {
				v.Leader = 0
				m := member(2, 0)
				m.Name, m.ClientURLs, m.Status, m.Endpoint = "", nil, nil, ""
				v.Members = append(v.Members, m)
			})
		}, []string{"KVD-RAFT-001 critical", "KVD-RAFT-002 critical", "KVD-RAFT-008 critical"}},

		{"lists: a zombie on one member", func(w *world) {
			zombie := member(9, 1)
			zombie.Status = nil
			w.in.Lists[0].Members = append(w.in.Lists[0].Members, zombie)
			w.both(func(v *cluster.View) { // its list may be the one that the view is made of
				zombie.Err = refused("http://10.0.0.9:2379")
				v.Members = append(v.Members, zombie)
			})
		}, []string{"KVD-RAFT-010 warning"}},
		{"lists: one lacks a member", func(w *world) { w.in.Lists[1].Members = w.in.Lists[1].Members[:2] }, []string{"KVD-RAFT-010 warning"}},
		{"lists: of two, the one that lags lacks a member", func(w *world) {
			w.down(3, refused("http://10.0.0.3:2379"))
			added := member(4, 1)
			added.Name, added.ClientURLs, added.Status, added.Endpoint = "", nil, nil, ""
			w.in.Lists[0].Of.Status.AppliedIndex -= 10
			w.in.Lists[1].Members = append(w.in.Lists[1].Members, added)
			w.both(func(v *cluster.View) { v.Members = append(v.Members, added) })
		}, []string{"KVD-RAFT-002 critical", "KVD-NET-001 critical", "KVD-RAFT-008 critical", "KVD-RAFT-010 warning"}},
		{"lists: another order is none", func(w *world) {
			l := w.in.Lists[1].Members
			l[0], l[2] = l[2], l[0]
		}, nil},

		{"tokens: one member refuses and is refused", func(w *world) { w.tokens([2]uint64{1, 3}, [2]uint64{2, 3}, [2]uint64{3, 1}, [2]uint64{3, 2}) }, []string{"KVD-AUTH-002 critical"}},
		{"tokens: those of one are refused", func(w *world) { w.tokens([2]uint64{3, 1}, [2]uint64{3, 2}) }, []string{"KVD-AUTH-002 critical"}},
		{"tokens: one that makes none refuses", func(w *world) {
			w.tokens([2]uint64{1, 3}, [2]uint64{2, 3})
			w.in.Tokens.Made = w.in.Tokens.Made[:2]
		}, []string{"KVD-AUTH-002 critical"}},
		{"tokens: all take all", func(w *world) { w.tokens() }, nil},
		{"one cluster: an endpoint that leads into two", func(w *world) {
			w.in.Now.View.Endpoints = []string{"http://10.0.0.9:2379"}
			w.in.Now.View.Strangers = []cluster.Stranger{{Endpoint: "http://10.0.0.9:2379", ClusterID: 0xbad, MemberID: 7, Revision: 12, Shared: true}}
		}, []string{"KVD-NET-005 critical"}},
		{"one cluster: an endpoint of another, which is no member's", func(w *world) {
			w.in.Now.View.Strangers = []cluster.Stranger{{Endpoint: "http://10.0.0.9:2379", ClusterID: 0xbad, MemberID: 7, Revision: 12}}
		}, []string{"KVD-RAFT-012 critical"}},
		{"one cluster: an endpoint of another", func(w *world) {
			w.in.Now.View.Strangers = []cluster.Stranger{{Endpoint: "http://10.0.0.3:2379", ClusterID: 0xbad, MemberID: 7, Revision: 12}}
		}, []string{"KVD-RAFT-012 critical"}},

		{"elections: one, by the term", func(w *world) {
			for id := uint64(1); id <= 3; id++ {
				w.now(id, func(m *cluster.Member) { m.Status.RaftTerm++ })
			}
		}, []string{"KVD-RAFT-003 warning"}},
		{"elections: one, by the counters", func(w *world) { w.grow(2, "etcd_server_leader_changes_seen_total", 1) }, []string{"KVD-RAFT-003 warning"}},
		{"elections: many in a long life", func(w *world) { w.gauge(2, "etcd_server_leader_changes_seen_total", 4000, 4000) }, nil},

		{"lag: a follower behind at both looks", func(w *world) {
			w.status(3, func(s *cluster.Status) { s.RaftIndex -= 1500; s.AppliedIndex -= 1500; s.Revision -= 1500 })
		}, []string{"KVD-RAFT-004 warning"}},
		{"lag: behind and catching up", func(w *world) {
			w.in.Before.View.Members[2].Status.RaftIndex -= 9000
			w.in.Before.View.Members[2].Status.AppliedIndex -= 9000
			w.now(3, func(m *cluster.Member) { m.Status.RaftIndex -= 1200; m.Status.AppliedIndex -= 1200 })
		}, []string{"KVD-RAFT-004 info"}},
		{"lag: at one look only", func(w *world) {
			w.now(3, func(m *cluster.Member) { m.Status.RaftIndex -= 4000; m.Status.AppliedIndex -= 4000 })
		}, nil},
		{"lag: committed and not applied", func(w *world) {
			w.status(2, func(s *cluster.Status) { s.AppliedIndex -= 2000 })
		}, []string{"KVD-RAFT-005 warning"}},
		{"lag: so much that requests are refused", func(w *world) {
			w.status(2, func(s *cluster.Status) { s.AppliedIndex -= 6000 })
		}, []string{"KVD-RAFT-005 critical"}},

		{"learners: a voter that is one", func(w *world) { w.gauge(3, "etcd_server_is_learner", 1, 1) }, []string{"KVD-RAFT-006 warning"}},
		{"learner: caught up", func(w *world) {
			w.fourth(func(m *cluster.Member) { m.Learner, m.Status.Learner = true, true })
		}, []string{"KVD-RAFT-006 info"}},
		{"learner: stuck", func(w *world) {
			w.fourth(func(m *cluster.Member) {
				m.Learner, m.Status.Learner, m.Status.RaftIndex, m.Status.AppliedIndex = true, true, 7, 7
			})
		}, []string{"KVD-RAFT-006 warning"}},
		{"learner: far behind and getting on", func(w *world) {
			n := uint64(0)
			w.fourth(func(m *cluster.Member) {
				n += 20000
				m.Learner, m.Status.Learner, m.Status.RaftIndex, m.Status.AppliedIndex = true, true, n, n
			})
		}, []string{"KVD-RAFT-006 info"}},
		{"learner: never started", func(w *world) {
			w.fourth(func(m *cluster.Member) {
				m.Learner, m.Name, m.ClientURLs, m.Status, m.Endpoint = true, "", nil, nil, ""
			})
		}, []string{"KVD-RAFT-006 info"}},
	}
}
