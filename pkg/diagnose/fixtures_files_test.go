package diagnose_test

import (
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/ops/wal"
)

// dir is a data directory on which all is well.
func dir(path string) diagnose.Dir {
	consistent := uint64(60200)
	log := &wal.Verification{Dir: path + "/member/wal", Metadata: wal.Metadata{Member: 3, Cluster: 0xc1}, Verdict: wal.Verdict{Outcome: wal.Starts, Why: "the log is whole"},
		Numbers:  wal.Numbers{Last: wal.EntryID{Index: 60200, Term: 5}, Commit: 60199, Newest: wal.Snapshot{Index: 60000, Term: 5}, Consistent: &consistent},
		Database: &wal.Database{Path: path + "/member/snap/db", ConsistentIndex: 60200, Term: 5, Members: []wal.DatabaseMember{{ID: 1, Name: "m1"}, {ID: 2, Name: "m2"}, {ID: 3, Name: "m3"}}}}
	s := &snapshot.Status{Revision: 50200, CompactRevision: 45000, Keys: 1000, LiveBytes: 19 * mib, HistoryBytes: 5 * mib, InUseBytes: 30 * mib, FreeBytes: 10 * mib, ConsistentIndex: 60200}
	s.Digests.KV = snapshot.KVHash{Hash: 7, Revision: 50200, CompactRevision: 45000}
	return diagnose.Dir{Path: path, Log: log, First: 50001, DB: &snapshot.Verification{File: path + "/member/snap/db", Verdict: snapshot.Unproven, Class: snapshot.ClassRawCopy, Content: s}}
}

func (w *world) dirs(change func(*diagnose.Dir)) {
	d := dir("/var/lib/etcd")
	change(&d)
	w.in.Dirs = append(w.in.Dirs, d)
}

// whole is a snapshot with its hash.
func whole() *snapshot.Verification {
	v := dir("/x").DB
	v.Verdict, v.Class = snapshot.Restorable, snapshot.ClassWhole
	return v
}

// three are directories of one cluster in which nothing runs: the members m1, m2 and so
// on, whose logs end there.
func (w *world) three(last ...uint64) {
	w.in.Now, w.in.Before, w.in.Lists = nil, nil, nil
	for i, at := range last {
		w.dirs(func(d *diagnose.Dir) {
			d.Path, d.Log.Member = "/m"+string(rune('1'+i)), wal.ID(i+1) //nolint:gosec // few
			consistent := at
			d.Log.Numbers.Last.Index, d.Log.Numbers.Commit, d.Log.Numbers.Consistent = at, at-1, &consistent
			d.DB.Content.ConsistentIndex, d.DB.Content.Revision = at, int64(at)-10000 //nolint:gosec // far below 2^63
		})
	}
}

// restoredAt makes a directory of what a restore leaves of a snapshot at that revision.
func restoredAt(d *diagnose.Dir, id wal.ID, revision int64, members ...string) {
	last := uint64(len(members))
	d.Log.Cluster, d.First, d.Marks = id, 1, []wal.Mark{{Snapshot: wal.Snapshot{Index: last, Term: 1}}}
	d.Log.Numbers = wal.Numbers{Last: wal.EntryID{Index: last, Term: 1}, Commit: last, Newest: wal.Snapshot{Index: last, Term: 1}, Consistent: &last}
	d.Log.Database.Members = nil
	for i, name := range members {
		d.Log.Database.Members = append(d.Log.Database.Members, wal.DatabaseMember{ID: wal.ID(i + 1), Name: name}) //nolint:gosec // few
	}
	d.DB.Content.Revision, d.DB.Content.ConsistentIndex = revision, last
	d.DB.Content.CompactRevision = 39000
	d.DB.Content.Digests.KV = snapshot.KVHash{Hash: uint32(revision), Revision: revision, CompactRevision: 39000} //nolint:gosec // small
}

// heldOf is what a file holds: Secrets, of which the largest has so many bytes, Endpoints,
// and a lease.
func heldOf(secret, endpoints, leased int64) *diagnose.Held {
	return &diagnose.Held{Groups: []keyspace.Group{{Resource: "secrets", Prefix: "secrets", Keys: 50, Bytes: keyspace.Estimate{Bytes: 10 * mib}, Largest: secret},
		{Resource: "endpoints", Prefix: "endpoints", Keys: 3, Bytes: keyspace.Estimate{Bytes: mib}, Largest: endpoints}},
		Leases: []diagnose.HeldLease{{ID: "a1", Keys: leased}}}
}

// says adds a finding of the log's verification.
func says(d *diagnose.Dir, o wal.Outcome, s wal.Severity, cause string) {
	d.Log.Verdict.Outcome = o
	d.Log.Findings = append(d.Log.Findings, wal.Finding{Severity: s, Mismatch: wal.Mismatch{Cause: cause, Says: "so it is", Hint: "do this"}})
}

func (w *world) target(v string, flags ...string) {
	w.in.Target = &diagnose.Target{Version: v, Manifests: []diagnose.Manifest{{Path: "etcd.yaml", Flags: flags}}}
}

func (w *world) version(v, storage string) {
	for id := uint64(1); id <= 3; id++ {
		w.status(id, func(s *cluster.Status) { s.Version, s.StorageVersion = v, storage })
	}
}

// downgrade enables one.
func (w *world) downgrade(target string) {
	for id := uint64(1); id <= 3; id++ {
		w.status(id, func(s *cluster.Status) { s.DowngradeTarget = target })
	}
}

// of35 is a directory of etcd 3.5 with these members in its database.
func of35(members ...snapshot.Member) func(*diagnose.Dir) {
	return func(d *diagnose.Dir) {
		d.DB.Content.ClusterVersion, d.DB.Content.Members = "3.5.0", members
	}
}

func fileFixtures() []fixture {
	return []fixture{
		{"start: all is well", func(w *world) { w.dirs(func(*diagnose.Dir) {}) }, nil},
		{"start: a torn last record", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { says(d, wal.Repairs, wal.Warning, string(wal.Torn)) })
		}, []string{"KVD-CORRUPT-003 warning"}},
		{"start: a hidden length", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { says(d, wal.Drops, wal.Critical, string(wal.Hidden)) })
		}, []string{"KVD-CORRUPT-003 critical"}},
		{"start: an old database in its place", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { says(d, wal.Refuses, wal.Critical, wal.DBBehindSnap) })
		}, []string{"KVD-CORRUPT-004 critical"}},
		{"start: no database, and a log from the beginning", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				says(d, wal.Starts, wal.Critical, wal.CauseNoDB)
				d.First, d.Log.Numbers.Newest, d.Log.Database, d.DB = 1, wal.Snapshot{}, nil, nil
			})
		}, []string{"KVD-CORRUPT-004 warning"}},
		{"start: a database that its log cannot have made", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				d.First, d.DB.Content.ConsistentIndex = 1, 5
				d.Log.Numbers.Newest = wal.Snapshot{}
			})
		}, []string{"KVD-CORRUPT-004 critical"}},
		{"start: so many revisions, and a restore at the log's beginning", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				d.First, d.DB.Content.ConsistentIndex = 1, 5
				d.Marks = []wal.Mark{{Snapshot: wal.Snapshot{Index: 3, Term: 1}}}
			})
		}, nil},
		{"start: so many revisions, and the log's beginning was purged", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { d.DB.Content.ConsistentIndex = 49000 })
		}, nil},
		{"start: an entry of etcd 3.5, whose own version starts", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				says(d, wal.Refuses, wal.Critical, wal.CauseForeign)
				d.Log.Own = &wal.Verdict{Outcome: wal.Starts}
			})
		}, []string{"KVD-VERSION-004 warning"}},
		{"start: an entry of etcd 3.5, which runs", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				says(d, wal.Refuses, wal.Critical, wal.CauseForeign)
				d.Log.Own, d.Holder, d.DB = &wal.Verdict{Outcome: wal.Starts}, "process 4242 (etcd)", nil
			})
		}, []string{"KVD-OPS-003 info", "KVD-VERSION-004 info"}},
		{"start: voters of etcd 3.5 that are learners in the database", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				says(d, wal.Refuses, wal.Critical, wal.CauseLearners)
				d.Log.Own = &wal.Verdict{Outcome: wal.Starts}
			})
		}, []string{"KVD-VERSION-004 warning"}},
		{"start: more learners than a start takes", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { says(d, wal.Refuses, wal.Critical, wal.CauseLearners) })
		}, []string{"KVD-CORRUPT-004 critical"}},
		{"start: ended at its birth, and nothing of it damaged", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { says(d, wal.NotKnown, wal.Critical, wal.CauseUnborn) })
		}, []string{"KVD-CORRUPT-004 critical"}},
		{"start: a newer etcd has written it", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { says(d, wal.Refuses, wal.Critical, wal.CauseNewer) })
		}, []string{"KVD-VERSION-004 critical"}},
		{"start: no room on the disk", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				says(d, wal.Starts, wal.Critical, wal.CauseDiskFull)
				d.Log.Findings[len(d.Log.Findings)-1].Mismatch = wal.Mismatch{Cause: wal.CauseDiskFull, Says: `0 B may still be written to the file system of /var/lib/etcd/member/wal: etcd ends there with "no space left on device", at its start or as soon as it needs more than its files already have`,
					Hint: "make room there before it is started, by what is not of etcd, or give it a larger disk; delete nothing of member/: what was acknowledged is in the log, and nothing is lost"}
			})
		}, []string{"KVD-DISK-004 critical"}},
		{"start: no room on the disk for the next segment", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { says(d, wal.Starts, wal.Warning, wal.CauseDiskFull) })
		}, []string{"KVD-DISK-004 warning"}},
		{"start: remarks are none", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { says(d, wal.Starts, wal.Remark, wal.CauseUncommitted) })
		}, nil},

		{"database: damaged pages", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				d.DB.Verdict, d.DB.Class, d.DB.Summary = snapshot.NotRestorable, snapshot.ClassBadPages, "2 damaged pages"
			})
		}, []string{"KVD-CORRUPT-005 critical"}},
		{"database: a raw copy, or a snapshot without its last 32 bytes, has no hash", func(w *world) {
			w.in.Files = []diagnose.File{{Path: "raw.db", V: dir("/x").DB}}
		}, []string{"KVD-CORRUPT-005 info"}},
		{"database: a snapshot with its hash", func(w *world) {
			w.in.Files = []diagnose.File{{Path: "whole.db", V: whole()}}
		}, nil},
		{"database: garbage, and the log as well", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				d.DB.Verdict, d.DB.Class, d.DB.Content = snapshot.NotRestorable, snapshot.ClassNotASnapshot, nil
				says(d, wal.Refuses, wal.Critical, wal.CauseUnread)
				d.Log.Damages, d.Log.Damaged = []wal.Break{{Damage: wal.Damage{Class: wal.BadCRC, Why: "the CRC does not fit"}}}, 1
			})
		}, []string{"KVD-CORRUPT-003 critical", "KVD-CORRUPT-005 critical"}},
		{"database: garbage, and a last record that was cut short", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				d.DB.Verdict, d.DB.Class, d.DB.Content = snapshot.NotRestorable, snapshot.ClassNotASnapshot, nil
				says(d, wal.Refuses, wal.Critical, wal.CauseUnread)
				d.Log.Damages, d.Log.Damaged = []wal.Break{{Damage: wal.Damage{Class: wal.Torn, Last: true, Why: "it is not whole"}}}, 1
			})
		}, []string{"KVD-CORRUPT-003 warning", "KVD-CORRUPT-005 critical"}},
		{"database: keys that a compaction took", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				d.Lost = []diagnose.LostKeys{{Revision: 45000, Index: 51000, Keys: [][]byte{[]byte("a"), []byte("b")}}}
			})
		}, []string{"KVD-CORRUPT-006 critical"}},

		{"directories: two with other data at one index", func(w *world) {
			w.dirs(func(*diagnose.Dir) {})
			w.dirs(func(d *diagnose.Dir) { d.Path = "/b"; d.DB.Content.Revision += 50 })
		}, []string{"KVD-CORRUPT-002 critical"}},
		{"directories: one is behind", func(w *world) {
			w.dirs(func(*diagnose.Dir) {})
			w.dirs(func(d *diagnose.Dir) {
				d.Path = "/b"
				d.DB.Content.ConsistentIndex -= 9
				d.DB.Content.Revision -= 9
			})
		}, nil},
		{"directories: nothing runs, and one log of three ends 123 entries before", func(w *world) { w.three(60200-123, 60200, 60200) }, []string{"KVD-RAFT-011 info"}},
		{"directories: nothing runs, and they were stopped one after the other", func(w *world) {
			w.three(60198, 60199, 60200)
			d := w.in.Dirs[2].Log // its last entry had no quorum any more
			d.Numbers.Commit, *d.Numbers.Consistent = 60199, 60199
		}, nil},
		{"directories: nothing runs, and two logs of three end before what a quorum had", func(w *world) { w.three(60077, 60150, 60200) },
			[]string{"KVD-RAFT-011 warning", "KVD-RAFT-011 warning"}},
		{"directories: nothing runs, and only what is not committed is missing", func(w *world) {
			w.three(60199, 60199, 60205)
			for i := range w.in.Dirs {
				w.in.Dirs[i].Log.Numbers.Commit, w.in.Dirs[i].Log.Numbers.Consistent = 60199, nil
			}
		}, nil},
		{"directories: nothing runs, and two of them are of the same member", func(w *world) {
			w.three(60077, 60200)
			w.in.Dirs[0].Log.Member = w.in.Dirs[1].Log.Member
		}, []string{"KVD-RAFT-011 info"}},
		{"directories: one has no log, so that its cluster is unknown", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { d.Log.Metadata, d.Log.Numbers.Last = wal.Metadata{}, wal.EntryID{} })
		}, nil},
		{"directories: an old copy", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { d.Log.Numbers.Last.Index = 59000 })
		}, []string{"KVD-RAFT-011 warning"}},
		{"directories: of a restored cluster", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { d.Log.Cluster = 0xbad })
		}, []string{"KVD-RAFT-012 critical"}},
		{"directories: nothing runs, and one of three was restored alone", func(w *world) {
			w.three(60200, 60200, 60200)
			restoredAt(&w.in.Dirs[0], 0xbad, 40000, "m1")
		}, []string{"KVD-RAFT-012 critical"}},
		{"directories: nothing runs, and all were restored together", func(w *world) {
			w.three(60200, 60200, 60200)
			for i := range w.in.Dirs {
				restoredAt(&w.in.Dirs[i], 0xbad, 40000, "m1", "m2", "m3")
			}
		}, nil},
		{"directories: nothing runs, and they were restored from different snapshots", func(w *world) {
			w.three(60200, 60200, 60200)
			for i := range w.in.Dirs {
				restoredAt(&w.in.Dirs[i], 0xbad, 40000+50*int64(i/2), "m1", "m2", "m3")
			}
		}, []string{"KVD-CORRUPT-002 critical"}},
		{"objects in files: large ones, and a lease with many keys", func(w *world) {
			w.three(60200, 60200)
			for i := range w.in.Dirs { // told of once
				w.in.Dirs[i].Held = heldOf(1400*1024, 200*1024, 12000)
			}
		}, []string{"KVD-LEASE-001 warning", "KVD-OBJECT-001 warning", "KVD-OBJECT-002 warning"}},
		{"objects in files: as Kubernetes has them", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { d.Held = heldOf(300*1024, 16*1024, 1000) })
		}, nil},
		{"objects in files: very many leases", func(w *world) {
			v := whole()
			v.Content.Leases.Count = 250000
			w.in.Files = []diagnose.File{{Path: "yesterday.db", V: v, Held: heldOf(1024, 1024, 1)}}
		}, []string{"KVD-LEASE-003 warning"}},
		{"directories: an unstarted second voter", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				d.Log.Database.Members = []wal.DatabaseMember{{ID: 3, Name: "m3"}, {ID: 9}}
			})
		}, []string{"KVD-RAFT-008 critical"}},
		{"directories: an unstarted learner does not vote", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				d.Log.Database.Members = []wal.DatabaseMember{{ID: 3, Name: "m3"}, {ID: 9, Learner: true}}
			})
		}, nil},
		{"directories: an alarm inside", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { d.DB.Content.Alarms = []snapshot.Alarm{{MemberID: 3, Type: "NOSPACE"}} })
		}, []string{"KVD-SPACE-001 critical"}},

		{"revisions kept: a snapshot that is ahead of the cluster", func(w *world) {
			v := whole()
			v.Content.Revision = 90000
			w.in.Files = []diagnose.File{{Path: "yesterday.db", V: v}}
		}, []string{"KVD-OPS-007 warning"}},
		{"revisions kept: a snapshot of some time ago", func(w *world) {
			v := whole()
			v.Content.Revision = 49000
			w.in.Files = []diagnose.File{{Path: "yesterday.db", V: v}}
		}, nil},
		{"revisions kept: a member that was restored between the looks", func(w *world) {
			for id := uint64(1); id <= 3; id++ {
				w.now(id, func(m *cluster.Member) { m.Status.Revision = 40000 })
			}
		}, []string{"KVD-OPS-007 warning"}},
		{"left-over: in use", func(w *world) { w.dirs(func(d *diagnose.Dir) { d.Holder, d.DB = "etcd (pid 4242)", nil }) }, []string{"KVD-OPS-003 info"}},
		{"left-over: a database in use", func(w *world) {
			w.in.Files = []diagnose.File{{Path: "/var/lib/etcd/member/snap/db", Holder: "process 4242 (etcd)"}}
		}, []string{"KVD-OPS-003 info"}},
		{"left-over: somebody reads the database of a member that is down", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { says(d, wal.Starts, wal.Warning, wal.CauseLocked) })
		}, []string{"KVD-OPS-003 warning"}},
		{"left-over: a garbled .snap", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				d.Snaps = []diagnose.SnapFile{{Name: "5-9.snap", Damaged: "its CRC does not fit its content"}}
			})
		}, []string{"KVD-OPS-004 info"}},
		{"left-over: a .snap that the log has forgotten", func(w *world) { w.dirs(func(d *diagnose.Dir) { d.Snaps = []diagnose.SnapFile{{Name: "5-9.snap"}} }) }, nil},
		{"left-over: a killed defragmentation's copy", func(w *world) {
			w.dirs(func(d *diagnose.Dir) {
				d.Left = []diagnose.LeftFile{{Path: "db.tmp.1", Bytes: 1 << 20, Means: "a copy"}}
			})
		}, []string{"KVD-OPS-005 info"}},

		{"leases in the log: most of it", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { d.Grants, d.Length = wal.Amount{Count: 5000, Bytes: 400000}, 11000 })
		}, []string{"KVD-LEASE-004 warning"}},
		{"leases in the log: a few of many", func(w *world) {
			w.dirs(func(d *diagnose.Dir) { d.Grants, d.Length = wal.Amount{Count: 5000, Bytes: 400000}, 90000 })
		}, nil},

		{"measured disk: slow", func(w *world) {
			w.in.Disks = []diagnose.DiskTest{{Dir: "/d", Writes: 200, Bytes: 2300, P50: 8 * time.Millisecond, P99: 60 * time.Millisecond, Max: time.Second}}
		}, []string{"KVD-DISK-003 warning"}},
		{"measured disk: one slow write of many", func(w *world) {
			w.in.Disks = []diagnose.DiskTest{{Dir: "/d", Writes: 1000, Bytes: 2300, P50: time.Millisecond, P99: 3 * time.Millisecond, Max: time.Second}}
		}, nil},

		{"update: 3.5.12 to 3.6", func(w *world) { w.version("3.5.12", ""); w.target("3.6") }, []string{"KVD-VERSION-002 info", "KVD-VERSION-004 critical"}},
		{"update: 3.5.22 to 3.6, zombies", func(w *world) { w.version("3.5.22", ""); w.target("3.6") }, []string{"KVD-VERSION-002 info", "KVD-VERSION-004 critical"}},
		{"update: 3.5.35 to 3.6", func(w *world) {
			w.version("3.5.35", "")
			w.target("3.6", "name", "data-dir", "experimental-initial-corrupt-check")
		}, nil},
		{"update: 3.6 to 3.7, flags that are gone", func(w *world) {
			w.version("3.6.16", "3.6.0")
			w.target("3.7", "name", "experimental-initial-corrupt-check", "experimental-watch-progress-notify-interval")
		}, []string{"KVD-VERSION-004 critical", "KVD-VERSION-004 critical"}},
		{"update: 3.5 to 3.7 leaves one out", func(w *world) { w.version("3.5.35", ""); w.target("3.7") }, []string{"KVD-VERSION-004 critical"}},
		{"update: 3.7 to 3.8, the last one has not ended", func(w *world) { w.version("3.7.3", "3.6.0"); w.target("3.8") },
			[]string{"KVD-VERSION-004 critical", "KVD-VERSION-004 critical", "KVD-VERSION-004 critical"}},
		{"update: 3.6 to 3.7, halfway", func(w *world) {
			w.version("3.6.16", "3.6.0")
			w.status(1, func(s *cluster.Status) { s.Version = "3.7.3" })
			w.target("3.7")
		}, []string{"KVD-VERSION-001 warning"}},
		{"update: 3.7 to 3.8, halfway in the one before", func(w *world) {
			w.version("3.6.16", "3.6.0")
			w.status(1, func(s *cluster.Status) { s.Version = "3.7.3" })
			w.target("3.8")
		}, []string{"KVD-VERSION-001 warning", "KVD-VERSION-004 critical", "KVD-VERSION-004 critical"}},
		{"update: 3.6.4 to 3.7, a storage made by 3.4", func(w *world) { w.version("3.6.4", ""); w.target("3.7") },
			[]string{"KVD-VERSION-002 info", "KVD-VERSION-004 warning", "KVD-VERSION-004 warning", "KVD-VERSION-004 warning", "KVD-VERSION-004 warning"}},
		{"update: 3.6.10 to 3.7, with users", func(w *world) {
			w.version("3.6.10", "3.6.0")
			w.in.Auth = &diagnose.Auth{Enabled: true, Source: "users", Users: []diagnose.AuthUser{{Name: "app", Roles: []string{"app"}}}}
			w.target("3.7")
		}, []string{"KVD-VERSION-002 info", "KVD-VERSION-004 warning", "KVD-VERSION-004 warning"}},
		{"update: down to 3.6, every member ready", func(w *world) { w.version("3.7.3", "3.6.0"); w.downgrade("3.6.0"); w.target("3.6") }, []string{"KVD-VERSION-003 warning"}},
		{"update: down to 3.6, one not ready", func(w *world) {
			w.version("3.7.3", "3.6.0")
			w.status(2, func(s *cluster.Status) { s.StorageVersion = "3.7.0" })
			w.downgrade("3.6.0")
			w.target("3.6")
		}, []string{"KVD-VERSION-003 warning", "KVD-VERSION-004 critical"}},
		{"update: to 3.8 in a downgrade", func(w *world) { w.version("3.7.3", "3.6.0"); w.downgrade("3.6.0"); w.target("3.8") }, []string{"KVD-VERSION-003 warning", "KVD-VERSION-004 critical"}},
		{"update: down to 3.5 in one step", func(w *world) { w.target("3.5") }, []string{"KVD-VERSION-004 critical"}},
		{"update: 3.7 to 3.8, a flag that will go", func(w *world) { w.target("3.8", "max-snapshots") }, []string{"KVD-VERSION-004 critical"}},
		{"update: to 3.6, by a variable", func(w *world) {
			w.target("3.6")
			w.in.Target.Manifests[0].Env = []string{"enable-v2", "name"}
			w.version("3.5.35", "")
		}, []string{"KVD-VERSION-004 warning"}},
		{"update: to 3.7, in etcd's configuration file", func(w *world) {
			w.target("3.7")
			w.in.Target.Manifests[0].Settings = []string{"experimental-initial-corrupt-check", "name"}
			w.version("3.6.16", "3.6.0")
		}, []string{"KVD-VERSION-004 warning"}},
		{"update: to 3.6, a variable that 3.7 does not have", func(w *world) {
			w.target("3.6")
			w.in.Target.Manifests[0].Env = []string{"experimental-initial-corrupt-check"}
			w.version("3.5.35", "")
		}, nil},
		{"update: 3.7 to 3.8", func(w *world) { w.target("3.8", "name", "listen-client-urls") }, nil},
		{"update: 3.5 to 3.6, a voter that is a learner in the database", func(w *world) {
			w.version("3.5.35", "")
			w.target("3.6")
			w.dirs(of35(snapshot.Member{ID: 1, Name: "m1"}, snapshot.Member{ID: 2, Name: "m2", Learner: true}, snapshot.Member{ID: 3, Name: "m3"}))
		}, []string{"KVD-VERSION-004 critical"}},
		{"update: 3.5 to 3.6, a member that is gone and still in the database", func(w *world) {
			w.version("3.5.35", "")
			w.target("3.6")
			w.dirs(of35(snapshot.Member{ID: 1, Name: "m1"}, snapshot.Member{ID: 9, Name: "old"}))
		}, []string{"KVD-VERSION-004 critical"}},
		{"update: 3.5 to 3.6, both stores agree", func(w *world) {
			w.version("3.5.35", "")
			w.target("3.6")
			w.dirs(of35(snapshot.Member{ID: 1, Name: "m1"}, snapshot.Member{ID: 2, Name: "m2"}, snapshot.Member{ID: 3, Name: "m3"}))
		}, nil},
		{"update: 3.6 goes by the database alone", func(w *world) {
			w.version("3.6.16", "3.6.0")
			w.target("3.7")
			w.dirs(func(d *diagnose.Dir) {
				of35(snapshot.Member{ID: 9, Name: "old"})(d)
				d.DB.Content.ClusterVersion, d.DB.Content.StorageVersion = "3.6.0", "3.6.0"
			})
		}, nil},
		{"update: from directories, of a log that tells who was removed and who promoted", func(w *world) {
			w.in.Now, w.in.Before, w.in.Lists = nil, nil, nil
			w.target("3.6")
			w.dirs(func(d *diagnose.Dir) {
				of35(snapshot.Member{ID: 3, Name: "m3"}, snapshot.Member{ID: 8, Name: "promoted", Learner: true}, snapshot.Member{ID: 9, Name: "old"})(d)
				d.Changes = []wal.Member{{Change: "add", ID: 3}, {Change: "add", ID: 9}, {Change: "add_learner", ID: 8}, {Change: "remove", ID: 9}, {Change: "promote", ID: 8}}
			})
		}, []string{"KVD-VERSION-004 critical", "KVD-VERSION-004 critical"}},
		{"update: from directories, a learner of which the log tells nothing", func(w *world) {
			w.in.Now, w.in.Before, w.in.Lists = nil, nil, nil
			w.target("3.6")
			w.dirs(of35(snapshot.Member{ID: 3, Name: "m3"}, snapshot.Member{ID: 8, Name: "m8", Learner: true}))
		}, []string{"KVD-VERSION-004 warning"}},
		{"update: from directories, one that was removed and added again, and a learner that is one", func(w *world) {
			w.in.Now, w.in.Before, w.in.Lists = nil, nil, nil
			w.target("3.6")
			w.dirs(func(d *diagnose.Dir) {
				of35(snapshot.Member{ID: 3, Name: "m3"}, snapshot.Member{ID: 8, Name: "m8", Learner: true})(d)
				d.Changes = []wal.Member{{Change: "remove", ID: 3}, {Change: "add", ID: 3}, {Change: "add_learner", ID: 8}}
			})
		}, nil},
		{"update: from a directory of 3.5, which 3.7 does not start on and 3.6 does", func(w *world) {
			w.in.Now, w.in.Before, w.in.Lists = nil, nil, nil
			w.target("3.6")
			w.dirs(func(d *diagnose.Dir) {
				of35(snapshot.Member{ID: 3, Name: "m3"})(d)
				says(d, wal.Refuses, wal.Critical, wal.CauseForeign)
				d.Log.Own = &wal.Verdict{Outcome: wal.Starts}
			})
		}, nil},
		{"update: keys and requests of the v2 API", func(w *world) {
			w.in.Now, w.in.Before, w.in.Lists = nil, nil, nil
			w.target("3.6")
			w.dirs(func(d *diagnose.Dir) {
				of35(snapshot.Member{ID: 3, Name: "m3"})(d)
				d.V2 = diagnose.V2{Snap: "0000000000000002-0000000000000015.snap", Keys: []string{"/coreos.com/network/config"}, Requests: 2, First: 30, What: "PUT /1/a"}
			})
		}, []string{"KVD-VERSION-004 critical", "KVD-VERSION-004 critical"}},
		{"update: keys of the v2 API, and no update to a version that minds them", func(w *world) {
			w.in.Now, w.in.Before, w.in.Lists = nil, nil, nil
			w.target("3.5")
			w.dirs(func(d *diagnose.Dir) {
				of35(snapshot.Member{ID: 3, Name: "m3"})(d)
				d.V2 = diagnose.V2{Snap: "0000000000000002-0000000000000015.snap", Keys: []string{"/coreos.com/network/config"}}
			})
		}, nil},
		{"update: from a directory, whose storage is behind", func(w *world) {
			w.in.Now, w.in.Before, w.in.Lists = nil, nil, nil
			w.target("3.8")
			w.dirs(func(d *diagnose.Dir) {
				d.DB.Content.ClusterVersion, d.DB.Content.StorageVersion = "3.7.0", "3.6.0"
			})
		}, []string{"KVD-VERSION-004 critical"}},
		{"update: from a directory, all is well", func(w *world) {
			w.in.Now, w.in.Before, w.in.Lists = nil, nil, nil
			w.target("3.8", "name", "listen-client-urls")
			w.dirs(func(d *diagnose.Dir) {
				d.DB.Content.ClusterVersion, d.DB.Content.StorageVersion = "3.7.0", "3.7.0"
			})
		}, nil},
		{"update: with a learner", func(w *world) {
			w.fourth(func(m *cluster.Member) { m.Learner, m.Status.Learner = true, true })
			w.target("3.8")
		}, []string{"KVD-RAFT-006 info", "KVD-VERSION-004 warning"}},
	}
}
