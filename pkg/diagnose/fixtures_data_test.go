package diagnose_test

import (
	"slices"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// hashes of m1 to m3.
func (w *world) hashes(all ...uint32) {
	for i, h := range all {
		w.in.Hashes = append(w.in.Hashes, diagnose.Hash{Member: member(uint64(i+1), 1), Hash: h, Revision: 50200, Compact: 45000})
	}
}

// apart has m3's revision differ at all views, and gives two more of them.
func (w *world) apart(by int64) {
	w.status(3, func(s *cluster.Status) { s.Revision += by })
	for range 2 {
		v := w.in.Now.View
		v.Members = slices.Clone(v.Members)
		w.in.Again = append(w.in.Again, v)
	}
}

func dataFixtures() []fixture {
	return []fixture{
		{"corrupt alarm", func(w *world) { w.alarm(2, cluster.AlarmCorrupt) }, []string{"KVD-CORRUPT-001 critical"}},
		{"corrupt alarm: of the wrong member", func(w *world) {
			w.alarm(2, cluster.AlarmCorrupt)
			w.hashes(7, 7, 9)
		}, []string{"KVD-CORRUPT-001 critical", "KVD-CORRUPT-002 critical"}},
		{"corrupt alarm: NOSPACE is another", func(w *world) { w.alarm(2, cluster.AlarmNoSpace) }, []string{"KVD-SPACE-001 critical"}},

		{"revisions: restored from different snapshots", func(w *world) { w.apart(50) }, []string{"KVD-CORRUPT-002 critical"}},
		{"revisions: a status is not of one instant", func(w *world) {
			w.apart(0)
			w.now(3, func(m *cluster.Member) { s := *m.Status; s.Revision--; m.Status = &s })
		}, nil},
		{"revisions: seen twice only", func(w *world) { w.status(3, func(s *cluster.Status) { s.Revision += 3 }) }, nil},
		{"revisions: behind, so at another index", func(w *world) {
			w.status(3, func(s *cluster.Status) { s.Revision -= 40; s.AppliedIndex -= 40; s.RaftIndex -= 40 })
			w.apart(0)
		}, nil},

		{"hashes: one differs", func(w *world) { w.hashes(7, 8, 7) }, []string{"KVD-CORRUPT-002 critical"}},
		{"hashes: three differ", func(w *world) { w.hashes(7, 8, 9) }, []string{"KVD-CORRUPT-002 critical"}},
		{"hashes: equal", func(w *world) { w.hashes(7, 7, 7) }, nil},
		{"hashes: of different compactions", func(w *world) { w.hashes(7, 8, 7); w.in.Hashes[1].Compact = 44000 }, nil},

		{"reading: the member did not outlive it", func(w *world) {
			w.in.Ended = &diagnose.Ended{Member: w.in.Now.View.Members[1], Reading: "its keys", Err: &fault.Error{Cause: cluster.CauseConnectionRefused}}
		}, []string{"KVD-CORRUPT-005 critical"}},
		{"reading: nothing could be read, and the member lives", func(w *world) { w.in.Keys, w.in.Writes = nil, nil }, nil},

		{"versions: two minors", func(w *world) { w.status(3, func(s *cluster.Status) { s.Version = "3.6.14" }) }, []string{"KVD-VERSION-001 warning"}},
		{"versions: two patches", func(w *world) { w.status(3, func(s *cluster.Status) { s.Version = "3.7.2" }) }, []string{"KVD-VERSION-001 info"}},
		{"versions: nested puts bypass the quota", func(w *world) {
			for id := uint64(1); id <= 3; id++ {
				w.status(id, func(s *cluster.Status) { s.Version = "3.7.0" })
			}
		}, []string{"KVD-VERSION-002 info"}},
		{"versions: 3.5.2 can corrupt", func(w *world) {
			for id := uint64(1); id <= 3; id++ {
				w.status(id, func(s *cluster.Status) { s.Version = "3.5.2" })
			}
		}, []string{"KVD-VERSION-002 critical", "KVD-VERSION-002 info"}},
		{"versions: fixed ones", func(w *world) {
			for id := uint64(1); id <= 3; id++ {
				w.status(id, func(s *cluster.Status) { s.Version = "3.6.14" })
			}
		}, nil},
		{"versions: a downgrade", func(w *world) {
			w.status(1, func(s *cluster.Status) { s.DowngradeTarget = "3.6.0" })
		}, []string{"KVD-VERSION-003 warning"}},
		{"versions: two patches that apply permissions differently", func(w *world) {
			w.version("3.6.16", "3.6.0")
			w.status(3, func(s *cluster.Status) { s.Version = "3.6.10" })
			w.in.Auth = &diagnose.Auth{Enabled: true, Source: "users", Users: []diagnose.AuthUser{{Name: "root", Roles: []string{"root"}}, {Name: "app", Roles: []string{"app"}}}}
		}, []string{"KVD-VERSION-001 warning", "KVD-VERSION-002 info"}},
		{"versions: two such patches, and only root", func(w *world) {
			w.version("3.6.16", "3.6.0")
			w.status(3, func(s *cluster.Status) { s.Version = "3.6.14" })
			w.in.Auth = &diagnose.Auth{Enabled: true, Source: "users", Users: []diagnose.AuthUser{{Name: "root", Roles: []string{"root"}}}}
		}, []string{"KVD-VERSION-001 info"}},
		{"versions: a downgrade on the way", func(w *world) {
			w.version("3.7.3", "3.6.0")
			w.downgrade("3.6.0")
			w.status(2, func(s *cluster.Status) { s.Version = "3.6.16" })
			w.down(3, refused("http://10.0.0.3:2379"))
		}, []string{"KVD-VERSION-001 warning", "KVD-VERSION-003 warning", "KVD-NET-001 warning", "KVD-RAFT-007 warning"}},
	}
}
