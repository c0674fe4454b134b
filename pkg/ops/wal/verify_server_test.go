package wal_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"

	"go.etcd.io/raft/v3/raftpb"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// scene is one way in which a log is hurt.
type scene struct {
	name    string
	hurt    func(t *trial)
	outcome wal.Outcome
	cause   string // among the findings that are no remarks; "" for none
	says    string // in one of the findings
	slow    bool
	renamed bool // it is the names of segments alone, and the hint says so
}

// scenes are the cases of a hurt log.
func scenes() []scene {
	flip := func(segment, nth int, at int64) func(*trial) {
		return func(t *trial) {
			r := t.v.entry(segment, nth)
			t.change(r.File, r.Offset+at, func(b []byte) { b[0] ^= 0x10 })
		}
	}
	zeroLength := func(segment, nth int) func(*trial) {
		return func(t *trial) {
			r := t.v.entry(segment, nth)
			t.change(r.File, r.Offset, func(b []byte) { clear(b[:8]) })
		}
	}
	db := func(t *trial, from string) { copyFile(t.T, from, filepath.Join(t.data, "member", "snap", "db")) }
	cut := func(nth int) func(*trial) {
		return func(t *trial) {
			r := t.v.entry(-1, nth)
			t.must(os.Truncate(t.walFile(r.File), r.Offset+r.Size-17))
		}
	}
	return []scene{
		{name: "whole", outcome: wal.Starts, slow: true, hurt: func(*trial) {}},
		{name: "the last entry cut", outcome: wal.Repairs, cause: "torn", hurt: func(t *trial) { cut(-1)(t); db(t, t.v.lateDB) }},
		{name: "the last entry cut, which is in the database", outcome: wal.Repairs, cause: "torn log_behind_db", slow: true, hurt: cut(-1)},
		{name: "cut where some of what is lost is in the database", outcome: wal.Silent, cause: "torn", slow: true, hurt: cut(-5)},
		{name: "the last entry cut, and a folder in place of the copy", outcome: wal.Refuses, cause: "torn", says: "there is a folder", slow: true, hurt: func(t *trial) {
			cut(-1)(t)
			t.must(os.Mkdir(t.walFile(t.v.segments[len(t.v.segments)-1].Name+".broken"), 0o700))
			db(t, t.v.lateDB)
		}},
		{name: "the last state cut", outcome: wal.Repairs, cause: "torn", slow: true, hurt: func(t *trial) {
			r := t.v.records[len(t.v.records)-1]
			if r.Type == wal.EntryType {
				t.Fatal("the log ends with an entry")
			}
			t.must(os.Truncate(t.walFile(r.File), r.Offset+r.Size-5))
		}},
		{name: "a bit in the last segment", hurt: flip(-1, 3, 400), outcome: wal.Refuses, cause: "crc_mismatch"},
		{name: "a bit in an older segment", hurt: flip(1, 3, 400), outcome: wal.Refuses, cause: "crc_mismatch", slow: true},
		{name: "the last entry's last 17 bytes", outcome: wal.Refuses, cause: "crc_mismatch", slow: true, hurt: func(t *trial) {
			r := t.v.entry(-1, -1)
			t.change(r.File, r.Offset+r.Size-24, func(b []byte) {
				for i := range b[:17] {
					b[i] ^= 0xff
				}
			})
		}},
		{name: "a length in an older segment", outcome: wal.Refuses, cause: "torn", slow: true, hurt: func(t *trial) {
			r := t.v.entry(1, 3)
			t.change(r.File, r.Offset, func(b []byte) { binary.LittleEndian.PutUint64(b, 1<<40) })
		}},
		{name: "a record that is none", outcome: wal.Refuses, cause: "undecodable", slow: true, hurt: func(t *trial) {
			r := t.v.entry(2, 3)
			t.change(r.File, r.Offset+8, func(b []byte) { b[0] = 0xff })
		}},
		{name: "a length beyond the file, with records behind it", outcome: wal.Repairs, cause: "torn", says: "records behind it can be read", slow: true, hurt: func(t *trial) {
			r := t.v.entry(-1, -4)
			t.change(r.File, r.Offset, func(b []byte) { binary.LittleEndian.PutUint64(b, 1<<40) })
			db(t, t.v.lateDB)
		}},
		{name: "a length of 0", outcome: wal.Drops, cause: "zero_length", hurt: func(t *trial) { zeroLength(-1, -4)(t); db(t, t.v.lateDB) }},
		{name: "a length of 0 before what is in the database", hurt: zeroLength(-1, -4), outcome: wal.Silent, cause: "zero_length", slow: true},
		{name: "a length of 0 in an older segment", hurt: zeroLength(1, 5), outcome: wal.Refuses, cause: "zero_length", slow: true},
		{name: "a segment missing", outcome: wal.Refuses, cause: "broken_chain", says: "segment 2 is missing between 1 and 3", hurt: func(t *trial) {
			t.must(os.Remove(t.walFile(t.v.segments[2].Name)))
		}},
		{name: "all segments but the last missing", outcome: wal.Refuses, cause: "segments_missing", hurt: func(t *trial) {
			for _, s := range t.v.segments[:len(t.v.segments)-1] {
				t.must(os.Remove(t.walFile(s.Name)))
			}
		}},
		{name: "the oldest segment missing", outcome: wal.Starts, slow: true, hurt: func(t *trial) {
			t.must(os.Remove(t.walFile(t.v.segments[0].Name)))
		}},
		{name: "a segment under another index", outcome: wal.Starts, hurt: func(t *trial) {
			t.must(os.Rename(t.walFile(t.v.segments[1].Name), t.walFile("0000000000000001-0000000000000001.wal")))
		}},
		{name: "the last segment under a lower index", outcome: wal.Refuses, cause: "entries_missing", slow: true, renamed: true, hurt: func(t *trial) {
			s := t.v.segments[len(t.v.segments)-1]
			t.must(os.Rename(t.walFile(s.Name), t.walFile(fmt.Sprintf("%016x-%016x.wal", s.Seq, 1))))
		}},
		{name: "the last segment under a later number", outcome: wal.Refuses, cause: "segments_missing", says: "is followed by segment", slow: true, renamed: true, hurt: func(t *trial) {
			s := t.v.segments[len(t.v.segments)-1]
			t.must(os.Rename(t.walFile(s.Name), t.walFile(fmt.Sprintf("%016x-%016x.wal", s.Seq+7, s.Index))))
		}},
		{name: "two segments under each other's numbers", outcome: wal.Refuses, cause: "broken_chain", slow: true, renamed: true, hurt: func(t *trial) {
			a, b := t.v.segments[1], t.v.segments[2]
			t.must(os.Rename(t.walFile(a.Name), t.walFile("x")))
			t.must(os.Rename(t.walFile(b.Name), t.walFile(fmt.Sprintf("%016x-%016x.wal", a.Seq, a.Index))))
			t.must(os.Rename(t.walFile("x"), t.walFile(fmt.Sprintf("%016x-%016x.wal", b.Seq, b.Index))))
		}},
		{name: "a segment under a short name", outcome: wal.Refuses, cause: "broken_chain", slow: true, renamed: true, hurt: func(t *trial) {
			s := t.v.segments[2]
			t.must(os.Rename(t.walFile(s.Name), t.walFile(fmt.Sprintf("%x-%x.wal", s.Seq, s.Index))))
		}},
		{name: "a folder in place of a segment", outcome: wal.Refuses, cause: "unreadable", slow: true, hurt: func(t *trial) {
			t.must(os.Remove(t.walFile(t.v.segments[2].Name)))
			t.must(os.Mkdir(t.walFile(t.v.segments[2].Name), 0o700))
		}},
		{name: "a segment a link to nothing", outcome: wal.Refuses, cause: "unreadable", says: "which is not there", slow: true, hurt: func(t *trial) {
			t.must(os.Remove(t.walFile(t.v.segments[0].Name)))
			t.must(os.Symlink(filepath.Join(t.root, "not-mounted"), t.walFile(t.v.segments[0].Name)))
		}},
		{name: "a sequence number twice", outcome: wal.Refuses, cause: "broken_chain", says: "have the same number", slow: true, hurt: func(t *trial) {
			copyFile(t.T, t.walFile(t.v.segments[2].Name), t.walFile("0000000000000002-0000000000009999.wal"))
		}},
		{name: "names that are none", outcome: wal.Starts, slow: true, hurt: func(t *trial) {
			t.must(os.WriteFile(t.walFile("x.wal"), []byte("x"), 0o600))
			t.must(os.WriteFile(t.walFile("1.tmp"), []byte("x"), 0o600))
		}},
		{name: "a name that is almost one", outcome: wal.Refuses, cause: "broken_chain", slow: true, hurt: func(t *trial) {
			copyFile(t.T, t.walFile(t.v.segments[1].Name), t.walFile(t.v.segments[1].Name+" copy.wal"))
		}},
		{name: "an unknown type", outcome: wal.Refuses, cause: "unknown_type", slow: true, hurt: func(t *trial) {
			r := t.v.records[len(t.v.records)-1]
			t.change(r.File, r.Offset+9, func(b []byte) { b[0] = 9 })
		}},
		{name: "an unknown type where a start does not read", outcome: wal.Starts, cause: "passed_over", slow: true, hurt: func(t *trial) {
			r := t.v.entry(0, 9)
			t.change(r.File, r.Offset+9, func(b []byte) { b[0] = 9 })
		}},
		{name: "the first record alone", outcome: wal.Refuses, cause: "no_snapshot_record", slow: true, hurt: func(t *trial) {
			for _, s := range t.v.segments[1:] {
				t.must(os.Remove(t.walFile(s.Name)))
			}
			t.must(os.Truncate(t.walFile(t.v.segments[0].Name), t.v.records[1].Offset))
		}},
		{name: "an entry of etcd 3.5", outcome: wal.Refuses, cause: "foreign_entry", hurt: func(t *trial) {
			t.put(t.v.entry(-1, -3).Entry.Index, raftpb.EntryNormal, v2Request())
		}},
		{name: "an entry of etcd 3.5 where a start does not apply it", outcome: wal.Starts, slow: true, hurt: func(t *trial) {
			t.put(t.v.entry(0, 9).Entry.Index, raftpb.EntryNormal, v2Request())
		}},
		{name: "an entry of a newer etcd", outcome: wal.Refuses, cause: "foreign_entry", slow: true, hurt: func(t *trial) {
			t.put(t.v.entry(-1, -1).Entry.Index, raftpb.EntryNormal, newerRequest())
			db(t, t.v.lateDB)
		}},
		{name: "an entry of a newer etcd, which the database has", outcome: wal.Starts, slow: true, hurt: func(t *trial) {
			t.put(t.v.entry(-1, -1).Entry.Index, raftpb.EntryNormal, newerRequest())
		}},
		{name: "a change of several members", outcome: wal.Refuses, cause: "foreign_entry", slow: true, hurt: func(t *trial) {
			t.put(t.v.entry(-1, -2).Entry.Index, raftpb.EntryConfChangeV2, nil)
		}},
		{name: "a change of members of nobody", outcome: wal.Refuses, cause: "foreign_entry", slow: true, hurt: func(t *trial) {
			t.put(t.v.entry(-1, -2).Entry.Index, raftpb.EntryConfChange, []byte{8, 1, 0x22, 1, '{'})
		}},
		{name: "another member's metadata", outcome: wal.Refuses, cause: "other_metadata", slow: true, hurt: func(t *trial) { t.otherMetadata() }},
		{name: "an older database", hurt: func(t *trial) { db(t, t.v.oldDB) }, outcome: wal.Refuses, cause: "db_behind_snap", says: "the log has all entries from"},
		{name: "an older database, and one that a leader sent", outcome: wal.Starts, slow: true, hurt: func(t *trial) {
			copyFile(t.T, t.v.lateDB, t.sentDB())
			db(t, t.v.oldDB)
		}},
		{name: "an older database, and one of 0 bytes that a leader sent", outcome: wal.Silent, cause: "database_from_peer_empty", says: "DESTROYED", hurt: func(t *trial) {
			t.anonymous()
			t.must(os.WriteFile(t.sentDB(), nil, 0o600))
			db(t, t.v.oldDB)
		}},
		{name: "an older database, and one just begun that a leader sent", outcome: wal.Refuses, cause: "database_from_peer_empty", slow: true, hurt: func(t *trial) {
			begun, err := bbolt.Open(t.sentDB(), 0o600, nil)
			t.must(err)
			t.must(begun.Close())
			db(t, t.v.oldDB)
		}},
		{name: "no database, and one of 0 bytes that a leader sent", outcome: wal.Refuses, cause: "database_from_peer_empty", slow: true, hurt: func(t *trial) {
			t.must(os.WriteFile(t.sentDB(), nil, 0o600))
			t.must(os.Remove(filepath.Join(t.data, "member", "snap", "db")))
		}},
		{name: "the database's folder a link to nothing", outcome: wal.Refuses, cause: "not_a_folder", says: "which is not there", hurt: func(t *trial) {
			t.must(os.RemoveAll(filepath.Join(t.data, "member", "snap")))
			t.must(os.Symlink(filepath.Join(t.root, "not-mounted"), filepath.Join(t.data, "member", "snap")))
		}},
		{name: "a file in place of the database's folder", outcome: wal.Refuses, cause: "not_a_folder", slow: true, hurt: func(t *trial) {
			t.must(os.RemoveAll(filepath.Join(t.data, "member", "snap")))
			t.must(os.WriteFile(filepath.Join(t.data, "member", "snap"), nil, 0o600))
		}},
		{name: "the database a link to nothing", outcome: wal.Refuses, cause: "database_unread", says: "which is not there", slow: true, hurt: func(t *trial) {
			t.must(os.Remove(filepath.Join(t.data, "member", "snap", "db")))
			t.must(os.Symlink(filepath.Join("..", "not-mounted", "db"), filepath.Join(t.data, "member", "snap", "db")))
		}},
		{name: "a folder in place of the database", outcome: wal.Refuses, cause: "database_unread", says: "it is a folder", slow: true, hurt: func(t *trial) {
			t.must(os.Remove(filepath.Join(t.data, "member", "snap", "db")))
			t.must(os.Mkdir(filepath.Join(t.data, "member", "snap", "db"), 0o700))
		}},
		{name: "an older database, and an older log gone", outcome: wal.Refuses, cause: "db_behind_snap", says: "are in neither", slow: true, hurt: func(t *trial) {
			for _, s := range t.v.segments[:2] {
				t.must(os.Remove(t.walFile(s.Name)))
			}
			db(t, t.v.oldDB)
		}},
		{name: "no database", outcome: wal.Refuses, cause: "db_behind_snap", says: "there is no database", slow: true, hurt: func(t *trial) {
			t.must(os.Remove(filepath.Join(t.data, "member", "snap", "db")))
		}},
		{name: "no folder for databases", outcome: wal.Refuses, cause: "db_behind_snap", says: "there is no database", slow: true, hurt: func(t *trial) {
			t.must(os.RemoveAll(filepath.Join(t.data, "member", "snap")))
		}},
		{name: "no database, but one that a leader sent", outcome: wal.Refuses, cause: "no_database", says: "REMOVES it", slow: true, hurt: func(t *trial) {
			t.must(os.Rename(filepath.Join(t.data, "member", "snap", "db"), t.sentDB()))
		}},
		{name: "no database, but one that a leader sent, copied as the hint says", outcome: wal.Starts, slow: true, hurt: func(t *trial) {
			copyFile(t.T, filepath.Join(t.data, "member", "snap", "db"), t.sentDB())
		}},
		{name: "a database of 0 bytes", outcome: wal.Refuses, cause: "db_behind_snap", says: "the database is empty", slow: true, hurt: func(t *trial) {
			t.must(os.Truncate(filepath.Join(t.data, "member", "snap", "db"), 0))
		}},
		{name: "a database without meta pages", outcome: wal.Refuses, cause: "database_unread", slow: true, hurt: func(t *trial) {
			t.mend(filepath.Join(t.data, "member", "snap", "db"), func(b []byte) { clear(b[:8192]) })
		}},
		{name: "a database of which the end is missing", outcome: wal.Refuses, cause: "database_unread", says: "was cut off", slow: true, hurt: func(t *trial) {
			path := filepath.Join(t.data, "member", "snap", "db")
			t.must(os.Truncate(path, t.pages(path)*9/10&^4095))
		}},
		{name: "a database of which all but the beginning is missing", outcome: wal.Refuses, cause: "database_unread", says: "was cut off", slow: true, hurt: func(t *trial) {
			t.must(os.Truncate(filepath.Join(t.data, "member", "snap", "db"), 5*4096))
		}},
		{name: "a database of which less than two pages are left", outcome: wal.Refuses, cause: "database_unread", says: "cannot be opened", slow: true, hurt: func(t *trial) {
			t.must(os.Truncate(filepath.Join(t.data, "member", "snap", "db"), 2655))
		}},
		{name: "a database of which only what was allocated is missing", outcome: wal.Starts, slow: true, hurt: func(t *trial) {
			path := filepath.Join(t.data, "member", "snap", "db")
			t.must(os.Truncate(path, t.pages(path)))
		}},
		{name: "a database that is none", outcome: wal.Refuses, cause: "database_unread", slow: true, hurt: func(t *trial) {
			t.must(os.WriteFile(filepath.Join(t.data, "member", "snap", "db"), []byte("none"), 0o600))
		}},
		{name: "another cluster's database", outcome: wal.Refuses, cause: "not_a_member", slow: true, hurt: func(t *trial) { db(t, otherDB(t.T, 400)) }},
		{name: "another cluster's database, older than the snapshot record", outcome: wal.Refuses, cause: "db_behind_snap not_a_member", slow: true,
			hurt: func(t *trial) { db(t, otherDB(t.T, 5)) }},
		{name: "another cluster's database, and the last entry cut", outcome: wal.Silent, cause: "not_a_member", says: "is cut off at offset", hurt: func(t *trial) {
			t.anonymous()
			db(t, otherDB(t.T, 400))
			end := t.end()
			t.must(os.Truncate(t.walFile(end.File), end.Offset-3))
		}},
		{name: "another cluster's database, and a length of 0", outcome: wal.Silent, cause: "not_a_member", says: "is filled with zeros", slow: true, hurt: func(t *trial) {
			t.anonymous()
			db(t, otherDB(t.T, 400))
			records := t.records()
			r := records[len(records)-4]
			t.change(r.File, r.Offset, func(b []byte) { clear(b[:8]) })
		}},
		{name: "storage of a newer etcd", outcome: wal.Refuses, cause: "newer_version", slow: true, hurt: func(t *trial) {
			t.edit(func(tx *bbolt.Tx) error {
				return tx.Bucket([]byte("meta")).Put([]byte("storageVersion"), []byte("3.8.0"))
			})
		}},
		{name: "a newer cluster", outcome: wal.Refuses, cause: "newer_version", hurt: func(t *trial) {
			t.edit(func(tx *bbolt.Tx) error {
				return tx.Bucket([]byte("cluster")).Put([]byte("clusterVersion"), []byte("3.8.0"))
			})
		}},
		{name: "a newer cluster, and the last entry cut", outcome: wal.Refuses, cause: "newer_version", says: "is cut off at offset", slow: true, hurt: func(t *trial) {
			cut(-1)(t)
			t.edit(func(tx *bbolt.Tx) error {
				return tx.Bucket([]byte("cluster")).Put([]byte("clusterVersion"), []byte("3.8.0"))
			})
		}},
		{name: "two learners", outcome: wal.Refuses, cause: "too_many_learners", hurt: func(t *trial) { t.addLearners(2) }},
		{name: "one learner", outcome: wal.Starts, slow: true, hurt: func(t *trial) { t.addLearners(1) }},
		{name: "nobody who votes", outcome: wal.Refuses, cause: "no_voter", hurt: func(t *trial) { t.demote() }},
		{name: "nobody who votes, by the database of 3.5", outcome: wal.Refuses, cause: "no_voter", says: "etcd issue 19557", slow: true, hurt: func(t *trial) {
			t.demote()
			t.edit(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("storageVersion")) })
		}},
		{name: "the newest .snap file damaged", outcome: wal.Starts, says: "its CRC is stored as", hurt: func(t *trial) {
			files := t.snapFiles()
			raw, err := os.ReadFile(files[len(files)-1])
			t.must(err)
			raw[len(raw)/2] ^= 1
			t.must(os.WriteFile(files[len(files)-1], raw, 0o600))
		}},
		{name: "the newest .snap file garbage", outcome: wal.Starts, says: "it is no snapshot", slow: true, hurt: func(t *trial) {
			files := t.snapFiles()
			t.must(os.WriteFile(files[len(files)-1], []byte("\xff garbage"), 0o600))
		}},
		{name: "another log's .snap file", outcome: wal.Starts, says: "the log has no snapshot record of index 1048576 and term 9", slow: true, hurt: func(t *trial) {
			copyFile(t.T, t.snapFiles()[0], filepath.Join(t.data, "member", "snap", "0000000000000009-0000000000100000.snap"))
		}},
		{name: "no .snap file", outcome: wal.Starts, slow: true, hurt: func(t *trial) {
			for _, f := range t.snapFiles() {
				t.must(os.Remove(f))
			}
		}},
		{name: "no log", outcome: wal.Silent, cause: "no_wal", slow: true, hurt: func(t *trial) {
			t.must(os.RemoveAll(filepath.Join(t.data, "member", "wal")))
		}},
		{name: "the log's folder a link to nothing", outcome: wal.Silent, cause: "no_wal", says: "which is not there", slow: true, hurt: func(t *trial) {
			t.must(os.RemoveAll(filepath.Join(t.data, "member", "wal")))
			t.must(os.Symlink(filepath.Join(t.root, "not-mounted"), filepath.Join(t.data, "member", "wal")))
		}},
		{name: "no log, but a file of that kind", outcome: wal.Refuses, cause: "no_wal", slow: true, hurt: func(t *trial) {
			for _, s := range t.v.segments {
				t.must(os.Remove(t.walFile(s.Name)))
			}
			t.must(os.WriteFile(t.walFile("x.wal"), []byte("x"), 0o600))
		}},
		{name: "no log, but a file of that kind, and no database either", outcome: wal.Refuses, cause: "no_wal", slow: true, hurt: func(t *trial) {
			for _, s := range t.v.segments {
				t.must(os.Remove(t.walFile(s.Name)))
			}
			t.must(os.WriteFile(t.walFile("x.wal"), []byte("x"), 0o600))
			t.mend(filepath.Join(t.data, "member", "snap", "db"), func(b []byte) { clear(b[:8192]) })
		}},
	}
}

// pages is how many bytes of a database's file have pages.
func (t *trial) pages(path string) int64 {
	t.Helper()
	f, err := dbfile.OpenWith(path, dbfile.Options{NoLock: true})
	t.must(err)
	defer f.Close()
	return f.DataSize()
}

// v2Request is what etcd up to 3.5 wrote of its version.
func v2Request() []byte {
	b := []byte{8, 5}
	for i, s := range []string{"PUT", "/0/version", "3.5.0"} {
		b = protowire.AppendString(protowire.AppendTag(b, protowire.Number(i+2), protowire.BytesType), s)
	}
	return b
}

// newerRequest is one that no etcd knows yet.
func newerRequest() []byte {
	return protowire.AppendString(protowire.AppendTag([]byte{8, 5}, 9999, protowire.BytesType), "x")
}

// What is said of a hurt log is what a real server then does.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	command := local.Command{Path: servertest.Binary(t), Args: []string{"serve"}}
	holdScenes(t, command, func(s scene) bool { return !s.slow })
}

func holdScenes(t *testing.T, command local.Command, which func(scene) bool) {
	t.Helper()
	v := newVictim(t, 100)
	for _, s := range scenes() {
		if !which(s) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			trial := v.copy(t)
			s.hurt(trial)
			got, err := wal.Verify(t.Context(), trial.data, wal.VerifyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Verdict.Outcome != s.outcome {
				t.Errorf("verdict %s (%s), want %s", got.Verdict.Outcome, got.Verdict.Why, s.outcome)
			}
			var causes []string
			for _, f := range got.Findings {
				if f.Severity != wal.Remark {
					causes = append(causes, f.Cause)
				}
			}
			if !slices.ContainsFunc(got.Findings, func(f wal.Finding) bool { return strings.Contains(f.Says, s.says) }) && s.says != "" {
				t.Errorf("nothing says %q: %+v", s.says, got.Findings)
			}
			if strings.Join(causes, " ") != s.cause {
				t.Errorf("findings %v, want %q: %+v", causes, s.cause, got.Findings)
			}
			for _, f := range got.Findings {
				if strings.Contains(s.name, "another cluster's") && strings.Contains(f.Hint, "restore "+trial.data) {
					t.Error(f.Hint)
				}
			}
			trial.hold(got, command)
			if hint := got.Worst(); s.renamed != (hint != nil && strings.Contains(hint.Hint, "mv -n")) {
				t.Errorf("%+v", hint)
			} else if s.renamed {
				trial.rename(hint.Hint, command)
			}
		})
	}
}

// rename does what a hint says of the names of segments, and then all is well.
func (t *trial) rename(hint string, command local.Command) {
	t.Helper()
	_, move, _ := strings.Cut(hint, "`")
	move, _, _ = strings.Cut(move, "`")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", move).CombinedOutput() //nolint:gosec // what is to be tested
	if err != nil {
		t.Fatalf("%s: %v: %s", move, err, out)
	}
	got, err := wal.Verify(t.Context(), t.data, wal.VerifyOptions{})
	t.must(err)
	if got.Verdict.Outcome != wal.Starts || got.Damaged > 0 {
		t.Errorf("afterwards: %+v, %+v", got.Verdict, got.Damages)
	}
	t.hold(got, command)
}

// A log that is being written to is whole each time, and nothing in its folder is
// touched by the look.
func TestVerifyLive(t *testing.T) {
	t.Parallel()
	looks(t, 4)
}

func looks(t *testing.T, n int) {
	t.Helper()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync", "--snapshot-count=200"}}})
	etcd := c.Client(t)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer cancel()
	for i := range 4 {
		writers.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				// Sizes around a sector and a page.
				_, _ = etcd.Put(ctx, fmt.Sprintf("key-%d-%d", i, k%50), strings.Repeat("v", 37*k%9000))
			}
		})
	}
	last := uint64(0)
	for range n {
		v, err := wal.Verify(t.Context(), c.DataDir(0), wal.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if v.Verdict.Outcome != wal.Starts || v.Damaged != 0 || v.Live == "" || v.Numbers.Last.Index < last || v.Numbers.Last.Index < *v.Numbers.Consistent {
			t.Fatalf("%+v, %+v, live %q", v.Verdict, v.Damages, v.Live)
		}
		last = v.Numbers.Last.Index
		l, err := wal.List(t.Context(), c.DataDir(0))
		if err != nil || l.Err() != nil || l.Damaged != 0 || l.Last.Index < last {
			t.Fatal(l, err)
		}
	}
}

// Nothing is written, and no right to write is needed: bytes, sizes and times of
// every file stay as they are, also of a log that a start would repair.
func TestVerifyReadOnly(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	puts(t, c.Client(t), 20)
	c.Kill(0)
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(c.DataDir(0))); err != nil {
		t.Fatal(err)
	}
	whole, err := wal.Inspect(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(whole.Dir, whole.End.File), whole.End.Offset-3); err != nil {
		t.Fatal(err)
	}
	protect := func(files, dirs os.FileMode) map[string]string {
		seen := map[string]string{}
		if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			mode := files
			if d.IsDir() {
				mode = dirs
			}
			if err := os.Chmod(path, mode); err != nil {
				return err
			}
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			var raw []byte
			if !d.IsDir() {
				raw, err = os.ReadFile(path)
			}
			seen[path] = fmt.Sprintf("%s %d %x", info.ModTime(), info.Size(), sha256.Sum256(raw))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return seen
	}
	before := protect(0o400, 0o500)
	v, err := wal.Verify(t.Context(), dir, wal.VerifyOptions{})
	if err != nil || v.Verdict.Outcome != wal.Repairs && v.Verdict.Outcome != wal.Silent || len(v.Damages) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if l, err := wal.List(t.Context(), dir); err != nil || l.Err() != nil {
		t.Error(err, l.Err())
	}
	if after := protect(0o600, 0o700); !maps.Equal(before, after) {
		t.Errorf("%v\nbecame\n%v", before, after)
	}
}
