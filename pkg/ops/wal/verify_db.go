package wal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// Database is what was found beside a log.
type Database struct {
	Path            string           `json:"path"`
	ConsistentIndex uint64           `json:"consistent_index"` // of the last entry applied to it; 0: nothing was
	Term            uint64           `json:"term"`             // of that entry; 0 before etcd 3.5
	Members         []DatabaseMember `json:"members"`
	StorageVersion  string           `json:"storage_version,omitempty"` // empty before 3.6
	ClusterVersion  string           `json:"cluster_version,omitempty"` // every one has it a moment after the first start
	Unread          string           `json:"unread,omitempty"`          // why it, or some of it, could not be read

	removed    []ID // members that the cluster has removed
	unopenable bool // neither meta page can be read, so that etcd cannot open it either
	noFile     bool // because it is none
	cut        bool // it ends before a page that a start reads
}

// DatabaseMember is a member of the cluster as a database has it.
type DatabaseMember struct {
	ID      ID     `json:"id"`
	Name    string `json:"name"`
	Learner bool   `json:"learner,omitempty"`
}

// readLive is readDatabase, of a running server's database again if need be: the file
// can have grown since it was opened, and its pages been written anew.
func readLive(ctx context.Context, path string, wanted bool) (*Database, error) {
	pause := time.NewTicker(livePause)
	defer pause.Stop()
	for tries := 1; ; tries++ {
		db, err := readDatabase(ctx, path, wanted)
		if err != nil || db == nil || db.Unread == "" || tries == liveTries {
			return db, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-pause.C:
		}
	}
}

// metaPages is how many pages a database has at least.
const metaPages = 2

// readDatabase reads what has to fit a log, without a lock: of a running server's
// database it is one transaction's. nil is none there, which is an error if wanted.
// A damaged one is no error.
func readDatabase(ctx context.Context, path string, wanted bool) (*Database, error) {
	db := &Database{Path: path, Members: []DatabaseMember{}}
	if why := noFile(path); why != "" {
		db.Unread, db.unopenable, db.noFile = why, true, true
		return db, nil
	}
	if _, err := os.Stat(path); (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && !wanted {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return db, nil // bbolt begins a new one in it
	}
	file, err := dbfile.OpenWith(path, dbfile.Options{NoLock: true})
	if err == nil {
		defer file.Close()
		if err = db.read(ctx, file); err == nil {
			err = wholeTree(ctx, file)
		}
		db.cut = beyondEnd(file, err)
		db.unopenable = file.Size() < metaPages*int64(file.Header().PageSize) // mmap in bbolt's db.go
	} else {
		db.unopenable = fault.KindOf(err) == fault.Damage
	}
	if k := fault.KindOf(err); err != nil && k != fault.Damage && k != fault.Inconclusive {
		return nil, unopened(path, err)
	}
	if err != nil {
		db.Unread = fault.Why(err)
	}
	return db, nil
}

// unopened says what to do where a database cannot be looked at.
func unopened(path string, err error) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Hint != "" {
		return err
	}
	with := *e
	switch e.Kind {
	case fault.Denied:
		with.Hint = hintOwner
	case fault.Usage:
		with.Hint = "--db names the member's database, as DATA-DIR/member/snap/db"
	default:
		with.Hint = unreadableHint(path)
	}
	return &with
}

// noFile says why a database cannot be opened for what is there in its place, "" if that is
// a file or nothing. Behind a link that leads to nothing bbolt makes a file, if it can.
func noFile(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return "it is a folder"
	}
	target := lostLink(path)
	if target == "" {
		return ""
	}
	if _, err := os.Stat(filepath.Dir(target)); err == nil {
		return ""
	}
	return fmt.Sprintf("it is a link to %s, which is not there", target)
}

// wholeTree reads every page that is in use, of a file that is shorter than its pages: one
// that was not copied whole. Of all others a few pages are enough.
func wholeTree(ctx context.Context, file *dbfile.File) error {
	if file.DataSize() <= file.Size() {
		return nil
	}
	if _, live := file.Live(); live {
		return nil // it grows
	}
	buckets, err := file.Buckets(ctx)
	for _, b := range buckets {
		err = errors.Join(err, file.Each(ctx, b.Name, func(_, _ []byte) error { return nil }))
	}
	return err
}

// beyondEnd reports an error of reading a page that is behind the end of the file. bbolt
// maps files into memory, and to touch such a page ends the process. One that begins
// before the end is read as if zeros followed.
func beyondEnd(file *dbfile.File, err error) bool {
	var d *dbfile.Damage
	const mapped = 4 << 10
	return errors.As(err, &d) && d.Class == dbfile.DamageBeyondEnd && d.Offset >= (file.Size()+mapped-1)/mapped*mapped
}

func (d *Database) read(ctx context.Context, file *dbfile.File) error {
	meta, err := file.Meta(ctx)
	if err != nil {
		return err
	}
	d.ConsistentIndex, d.Term, d.StorageVersion = meta.ConsistentIndex, meta.Term, meta.StorageVersion
	members, err := file.Members(ctx)
	for _, m := range members {
		d.Members = append(d.Members, DatabaseMember{ID(m.ID), m.Name, m.IsLearner})
	}
	if err != nil {
		return err
	}
	if err := file.Each(ctx, dbfile.BucketMembersRemoved, func(key, _ []byte) error {
		if id, err := dbfile.ParseMemberID(key); err == nil {
			d.removed = append(d.removed, ID(id))
		}
		return nil
	}); err != nil {
		return err
	}
	return file.Each(ctx, dbfile.BucketCluster, func(key, value []byte) error {
		if string(key) == dbfile.ClusterVersionKey {
			d.ClusterVersion = string(value)
		}
		return nil
	})
}

// backend is what Judge wants to know.
func (d *Database) backend() Backend {
	b := Backend{ConsistentIndex: d.ConsistentIndex, Term: d.Term}
	for _, m := range d.Members {
		b.Members = append(b.Members, m.ID)
	}
	return b
}

// empty reports a database as a start makes one where it is missing.
func (d *Database) empty() bool {
	return d.Unread == "" && d.ConsistentIndex == 0 && len(d.Members) == 0
}

// voters counts the members that vote, 0 if that is not known.
func (d *Database) voters() int {
	n := 0
	for _, m := range d.Members {
		if !m.Learner {
			n++
		}
	}
	return n
}

// snapDBName is the name of a database that a leader sent (dbFilePath in
// server/etcdserver/api/snap/db.go).
func snapDBName(index uint64) string { return fmt.Sprintf("%016x.snap.db", index) }
