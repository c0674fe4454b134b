package wal

import (
	"context"
	"os"
	"path/filepath"

	"kvd/pkg/ops/fault"
)

// Verification is what became of a log, and what etcd makes of it when it starts.
type Verification struct {
	Dir     string  `json:"dir"`            // of the segments; empty if there is no log
	Live    string  `json:"live,omitempty"` // the process that writes to it
	Verdict Verdict `json:"verdict"`
	// Own is what the version does that wrote the log, where etcd 3.7 refuses only
	// because of an entry of another version, or of learners in a database by which an
	// older one does not go.
	Own *Verdict `json:"verdict_of_own_version,omitempty"`
	Metadata
	Numbers  Numbers   `json:"numbers"`
	Segments int       `json:"segments"`
	Bytes    int64     `json:"bytes"`
	Records  int64     `json:"records"`
	Entries  int64     `json:"entries"`
	Database *Database `json:"database,omitempty"` // absent if none was found
	Damages  []Break   `json:"damages"`            // the first 100
	Damaged  int64     `json:"damages_found"`
	Findings []Finding `json:"findings"`
}

// Numbers are the four that have to fit each other. The log's are as etcd sees
// them, which is up to the first damage that it does not read over.
type Numbers struct {
	Last       EntryID  `json:"last_entry"`
	Commit     uint64   `json:"commit"`
	Newest     Snapshot `json:"newest_snapshot"` // that is committed
	Consistent *uint64  `json:"consistent_index"`
}

// Break is a damage, and what is behind it.
type Break struct {
	Damage
	Record     int64      `json:"record"`                 // its number in the log, from 1
	Type       Type       `json:"record_type,omitempty"`  // as far as it can be read
	Entry      *EntryID   `json:"entry,omitempty"`        // as far as it can be read
	Resumed    *Position  `json:"resumed_at,omitempty"`   // where records begin again
	Behind     int64      `json:"records_behind"`         // readable ones, up to the next damage
	Lost       *EntrySpan `json:"entries_lost,omitempty"` // if the log were cut here
	Unreadable *EntrySpan `json:"entries_unreadable,omitempty"`
	segment    int        // its number among the files
	before     EntryID    // the last entry in front of it
	after      *EntryID   // the first entry behind it
}

// Severity orders findings.
type Severity string

// The severities.
const (
	Remark   Severity = "info"     // looks odd and is in order
	Warning  Severity = "warning"  // a start deals with it
	Critical Severity = "critical" // a start does not, or something is lost by it
)

// Finding is something to say about a log.
type Finding struct {
	Severity Severity `json:"severity"`
	Mismatch
}

// VerifyOptions says what to look at beside the log.
type VerifyOptions struct {
	DB     string // the database of the member, where it is not beside the log
	DBLost bool   // DB is where it has to be, and is judged as gone if it is not there; else that is an error
}

// Verify goes through the log of a data directory, its member folder or a WAL
// folder, on behind damage too, and holds it against the database beside it.
// Nothing is locked, and nothing is written. Memory is bounded by the largest
// record, and by what is not consecutive in the log.
//
// Damage and what does not fit are no error but in the result. Errors: kind
// Unavailable with CauseNoWAL where there is neither log nor database, or where
// something cannot be read.
func Verify(ctx context.Context, dir string, o VerifyOptions) (*Verification, error) {
	found, err := Find(dir)
	if fault.CauseOf(err) == CauseNoWAL {
		return withoutLog(ctx, dir, o, err)
	}
	if err != nil {
		return nil, err
	}
	x, err := examine(ctx, found, o)
	if err != nil {
		return nil, err
	}
	return &x.Verification, nil
}

// examine goes through a log and looks at the database beside it.
func examine(ctx context.Context, found string, o VerifyOptions) (*exam, error) {
	holder, live := writer(found)
	x := &exam{Verification: Verification{Dir: found, Damages: []Break{}, Findings: []Finding{}}}
	if live {
		x.Live = holder.String()
	}
	path := o.DB
	if path == "" {
		path = besideDB(found)
		_, err := os.Lstat(filepath.Dir(path))
		x.bare = err != nil && !inMember(found)
	}
	x.dbLink = lostLink(path)
	if !x.bare {
		x.noSnap = noFolder(filepath.Dir(path))
	}
	// What is applied to the database was in the log before, and what a snapshot
	// record says was in the database before: with a server writing, it is read both
	// before the log and after it.
	read := readDatabase
	if live {
		read = readLive
	}
	var err error
	if x.Database, err = read(ctx, path, o.DB != "" && !o.DBLost); err != nil {
		return nil, err
	}
	if err := survey(ctx, found, live, tour{begin: x.begin, record: x.record, damaged: x.damaged, end: func(int64) {}}); err != nil {
		return nil, err
	}
	if err := x.readAgain(ctx, path); err != nil {
		return nil, err
	}
	if err := x.takeSent(ctx, path); err != nil {
		return nil, err
	}
	if n := len(x.segments); n > 0 {
		info, err := os.Stat(filepath.Join(found, x.segments[n-1].Name+".broken"))
		x.noCopy = err == nil && info.IsDir()
	}
	files, err := otherFiles(found)
	if err != nil {
		return nil, err
	}
	x.conclude(files)
	x.remarkRoom(path, files)
	x.remarkLocks(path)
	if !x.bare {
		x.remarkSnaps(filepath.Dir(path))
	}
	return x, nil
}

// readAgain reads how far a running server's database has come since.
func (x *exam) readAgain(ctx context.Context, path string) error {
	if x.Database == nil {
		return nil
	}
	x.applied = x.Database.ConsistentIndex
	if x.Live == "" {
		return nil
	}
	later, err := readLive(ctx, path, true)
	if err == nil {
		x.applied = max(x.applied, later.ConsistentIndex)
	}
	return err
}

// takeSent looks for the database that etcd takes instead of one that is older
// than the snapshot record.
func (x *exam) takeSent(ctx context.Context, path string) error {
	newest := x.newest()
	if x.Database != nil && (x.Database.Unread != "" || x.applied >= newest.Index) || newest.Index == 0 {
		return nil
	}
	sent, err := readDatabase(ctx, filepath.Join(filepath.Dir(path), snapDBName(newest.Index)), false)
	if sent != nil {
		x.missing = x.Database == nil
		x.Database, x.applied, x.sent = sent, sent.ConsistentIndex, true
	}
	return err
}

// Worst returns the first finding of the highest severity, nil if there are none.
func (v *Verification) Worst() *Finding {
	for _, s := range []Severity{Critical, Warning, Remark} {
		for i := range v.Findings {
			if v.Findings[i].Severity == s {
				return &v.Findings[i]
			}
		}
	}
	return nil
}
