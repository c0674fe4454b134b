package diagnose

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/ops/wal"
)

// Dir is what was found in a member's data directory.
type Dir struct {
	Path   string // as it was named: the data directory, its member folder, or that of the log
	Member string // the member folder; empty: Path/member
	Holder string // the process that has it open
	Log    *wal.Verification
	First  uint64     // index of the oldest entry in the log, 0 where there is none
	Marks  []wal.Mark // the log's snapshot records
	Sums   []uint32   // of each entry in the log, from First on, see sumOf
	DB     *snapshot.Verification
	Snaps  []SnapFile
	Left   []LeftFile
	Lost   []LostKeys
	Grants wal.Amount // leases granted, of all entries in the log
	Length int64      // entries in the log
	Writes *Writes
	Held   *Held
	V2     V2
	// Changes are those of the cluster's members that are in the log, the oldest first.
	Changes []wal.Member
}

// LeftFile is a file that something which was killed has left.
type LeftFile struct {
	Path  string
	Bytes int64
	Means string
}

// LostKeys is a transaction that deletes and puts the same keys, whose puts the
// compaction at its own revision has taken along.
type LostKeys struct {
	Revision int64
	Index    uint64 // of the raft entry
	Keys     [][]byte
}

// File is a snapshot or backend file by itself.
type File struct {
	Path   string
	V      *snapshot.Verification // nil where a server has it open
	Held   *Held
	Holder string // the process that does
}

// DirOptions say where else the parts of a data directory are.
type DirOptions struct {
	WALDir   string // where the log is not with the data
	SpoolDir string // for the content of a compressed snapshot
}

// memberDir is the folder that has snap, and wal as a rule.
func (d *Dir) memberDir() string {
	if d.Member != "" {
		return d.Member
	}
	return filepath.Join(d.Path, "member")
}

// memberOf finds the member folder of what was named: of a data directory, of the
// folder itself, or of the log's folder in it, as wal.Find takes them.
func memberOf(path string) string {
	there := func(p ...string) bool {
		_, err := os.Stat(filepath.Join(p...))
		return err == nil
	}
	switch {
	case there(path, "member"):
	case there(path, "snap", "db"), there(path, "wal"):
		return path
	case there(path, "..", "snap", "db"):
		return filepath.Join(path, "..")
	}
	return filepath.Join(path, "member")
}

// AddDirs reads data directories, each as AddDir does. Of several one may be empty: that
// is told of it, and the others are compared.
func (in *Input) AddDirs(ctx context.Context, paths []string, o DirOptions, sink progress.Sink) error {
	var empty error
	for _, path := range paths {
		err := in.AddDir(ctx, path, o, sink)
		if fault.CauseOf(err) == wal.CauseNoWAL {
			empty = err
			in.Dirs = append(in.Dirs, Dir{Path: path})
			in.Missing = append(in.Missing, Missing{Need: NeedDirs, Subject: path, Cause: wal.CauseNoWAL, Why: "it has neither a log nor a database", Hint: fault.HintOf(err)})
			continue
		}
		if err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(in.Dirs, func(d Dir) bool { return d.Log != nil || d.DB != nil || d.Holder != "" }) {
		return empty
	}
	return nil
}

// AddDir reads a data directory: its log from end to end, its database with all
// pages, and what lies about. Nothing is locked for longer than the database is read,
// and nothing is written. Of a running member the log alone is read: its database
// changes meanwhile.
//
// An error is for a directory that is not there or must not be read.
func (in *Input) AddDir(ctx context.Context, path string, o DirOptions, sink progress.Sink) error {
	d := Dir{Path: path, Member: memberOf(path)}
	db := filepath.Join(d.memberDir(), "snap", "db")
	if _, err := os.Stat(path); err != nil {
		return fault.OfFile(op, path, "data_dir", err)
	}
	logAt := path
	if o.WALDir != "" {
		logAt = o.WALDir
	}
	sink.Event(progress.Event{Op: op, Subject: path, Phase: "reading the log"})
	var err error
	verify := wal.VerifyOptions{}
	if o.WALDir != "" {
		_, err := os.Stat(d.memberDir())
		verify.DB, verify.DBLost = db, err == nil // else it is hardly a data directory
	}
	if d.Log, err = wal.Verify(ctx, logAt, verify); err != nil {
		if fault.CauseOf(err) != wal.CauseNoWAL {
			return err
		}
		if _, dbErr := os.Stat(db); dbErr != nil {
			return err // neither log nor database: no data directory
		}
	}
	if d.Log != nil && d.Log.Dir != "" {
		d.readMarks(ctx)
		d.countGrants(ctx)
		if err := d.readChanges(ctx); err != nil {
			return err
		}
		d.Holder = d.Log.Live
	}
	if err := in.addDB(ctx, &d, db, o, sink); err != nil {
		return err
	}
	in.hostOfDir(&d, db)
	if err := d.lookAround(); err != nil {
		return err
	}
	if d.Log != nil && d.Log.Dir != "" {
		if err := d.readV2(ctx); err != nil {
			return err
		}
	}
	in.Dirs = append(in.Dirs, d)
	return nil
}

// readMarks reads the log's first entry, the sums of all and its snapshot records; up
// to a damage, of which the verification tells.
func (d *Dir) readMarks(ctx context.Context) {
	_ = wal.Records(ctx, d.Log.Dir, func(r wal.Record) error {
		switch {
		case r.Type == wal.EntryType:
			if d.First == 0 {
				d.First = r.Entry.Index
			}
			d.addSum(&r.Entry)
		case r.Type == wal.SnapshotType:
			d.Marks = append(d.Marks, wal.Mark{Snapshot: r.Snapshot, Position: r.Position})
		}
		return nil
	})
}

// countGrants counts leases in the log: they are nowhere else, as soon as they have
// ended. Of a damaged log what stands before the damage counts.
func (d *Dir) countGrants(ctx context.Context) {
	s, _ := wal.GatherStats(ctx, d.Log.Dir, wal.DefaultStatsOptions())
	if s == nil {
		return
	}
	d.Length = s.Entries
	for _, t := range s.Types {
		if t.Type == wal.LeaseGrantType {
			d.Grants = t.Amount
		}
	}
}

// addDB reads the database, unless a server has it open.
func (in *Input) addDB(ctx context.Context, d *Dir, path string, o DirOptions, sink progress.Sink) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		in.Missing = append(in.Missing, Missing{Need: NeedDBs, Subject: d.Path, Why: "there is no database at " + path, Hint: "name the data directory itself; with its log elsewhere: --data-dir DIR --wal-dir LOG"})
		return nil
	}
	sink.Event(progress.Event{Op: op, Subject: path, Phase: "reading the database"})
	v, err := snapshot.Verify(ctx, path, snapshot.Options{SpoolDir: o.SpoolDir}, sink)
	if fault.CauseOf(err) == "file_in_use" {
		d.Holder = holderOf(err) // the log's lock does not always tell whose it is
		in.inUse(path)
		return nil
	}
	if err != nil {
		return err
	}
	d.DB = v
	if v.Content == nil || v.Verdict == snapshot.NotRestorable {
		return nil
	}
	file, err := dbfile.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if err := d.readLost(ctx, file); err != nil {
		return err
	}
	if d.Writes, err = writesOf(ctx, file, path, v.Content); err != nil {
		return err
	}
	d.Held, err = in.readHeld(ctx, path, v, o, sink)
	return err
}

// readLost looks for keys whose last word is a tombstone of the very revision that
// was compacted to, and for a transaction in the log that had put them again there
// (doCompact in server/storage/mvcc/key_index.go takes the tombstone for the end).
func (d *Dir) readLost(ctx context.Context, file *dbfile.File) error {
	at := d.DB.Content.CompactRevision
	if at == 0 || d.Log == nil || d.Log.Dir == "" {
		return nil
	}
	dead := map[string]bool{}
	err := file.Revisions(ctx, at, func(r *dbfile.Record) error {
		if r.Main == at && r.Tombstone && len(dead) < topKept {
			dead[string(r.Key)] = true
		} else {
			delete(dead, string(r.Key))
		}
		return nil
	})
	if err != nil || len(dead) == 0 {
		return err
	}
	o := wal.DefaultDumpOptions()
	o.Types = []string{string(wal.TxnType)}
	_, err = wal.Dump(ctx, d.Log.Dir, o, func(l *wal.Line) error {
		t, ok := l.Body.(*wal.Txn)
		if !ok {
			return nil
		}
		for _, branch := range [][]wal.Op{t.Success, t.Failure} {
			if keys := putAfterDelete(branch, dead); len(keys) > 0 {
				d.Lost = append(d.Lost, LostKeys{at, l.Index, keys})
			}
		}
		return nil
	})
	if fault.KindOf(err) == fault.Damage {
		return nil // the log's verification tells of it
	}
	return err
}

// putAfterDelete lists keys that a branch puts and that one of its deletes covers.
func putAfterDelete(branch []wal.Op, dead map[string]bool) [][]byte {
	var out [][]byte
	for _, put := range branch {
		if put.Op != wal.PutType || !dead[string(put.Key)] {
			continue
		}
		if slices.ContainsFunc(branch, func(o wal.Op) bool { return o.Op == wal.DeleteRangeType && covers(o, put.Key) }) {
			out = append(out, bytes.Clone(put.Key))
		}
	}
	return out
}

// covers reports that a range request has a key: see wal.Op.End.
func covers(o wal.Op, key []byte) bool {
	switch {
	case len(o.End) == 0:
		return bytes.Equal(o.Key, key)
	case len(o.End) == 1 && o.End[0] == 0:
		return bytes.Compare(key, o.Key) >= 0
	}
	return bytes.Compare(key, o.Key) >= 0 && bytes.Compare(key, o.End) < 0
}

// fileRevisions is of how many of a file's latest revisions the writers are counted.
const fileRevisions = 100000

func writesOf(ctx context.Context, file *dbfile.File, path string, c *snapshot.Status) (*Writes, error) {
	w := Writes{Member: path, From: max(1, c.CompactRevision+1, c.Revision-fileRevisions+1), To: c.Revision}
	t := newTop()
	err := file.Revisions(ctx, w.From, func(r *dbfile.Record) error {
		size := int64(len(r.RawKey) + len(r.RawValue))
		t.add(r.Key, size)
		w.Bytes += size
		return nil
	})
	t.fill(&w)
	return &w, err
}

func holderOf(err error) string { return strings.TrimPrefix(fault.Why(err), "in use by ") }

// inUse notes that a database could not be looked at.
func (in *Input) inUse(path string) {
	in.Missing = append(in.Missing, Missing{Need: NeedDBs, Subject: path, Why: "it is in use by a running server, so that its pages change while they are read",
		Hint: "`kvd diagnose` asks the server itself; `kvd snapshot save` takes a copy that can be read"})
}

// AddFile reads a snapshot or backend file. One that a server has open is not read;
// the findings tell of it.
func (in *Input) AddFile(ctx context.Context, path string, o DirOptions, sink progress.Sink) error {
	v, err := snapshot.Verify(ctx, path, snapshot.Options{SpoolDir: o.SpoolDir}, sink)
	if fault.CauseOf(err) == "file_in_use" {
		in.inUse(path)
		in.Files = append(in.Files, File{Path: path, Holder: holderOf(err)})
		return nil
	}
	if fault.KindOf(err) == fault.Refused { // it may be well, and takes too much to be read
		in.Missing = append(in.Missing, Missing{Need: NeedDBs, Subject: path, Cause: fault.CauseOf(err), Why: fault.Why(err), Hint: fault.HintOf(err)})
		return nil
	}
	if err != nil {
		return err
	}
	held, err := in.readHeld(ctx, path, v, o, sink)
	if err != nil {
		return err
	}
	in.Files = append(in.Files, File{Path: path, V: v, Held: held})
	return nil
}

// contentOf is what a file holds, as one that a member serves.
func contentOf(path string, s *snapshot.Status) content {
	m := cluster.Member{Name: path, Status: &cluster.Status{DBSize: s.InUseBytes + s.FreeBytes, DBInUse: s.InUseBytes, Revision: s.Revision, AppliedIndex: s.ConsistentIndex}}
	c := content{m: m, source: path, size: s.InUseBytes + s.FreeBytes, live: s.LiveBytes, history: s.HistoryBytes, keys: s.Keys, head: s.Revision,
		compacted: s.CompactRevision, revisions: s.Revision - max(1, s.CompactRevision)}
	c.perKey = float64(c.revisions) / float64(max(1, c.keys))
	return c
}
