package wal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// OtherFile is a file of a WAL folder, or beside it, that is no segment.
type OtherFile struct {
	Name  string `json:"name"` // relative to the WAL folder
	Bytes int64  `json:"bytes"`
	Kind  string `json:"kind"` // one of the constants
	Means string `json:"means"`
}

// Kinds of other files, with where server/storage/wal makes them.
const (
	FilePrepared = "prepared"    // the next segment, made beforehand: alloc in file_pipeline.go
	FileBroken   = "broken"      // what was before a repair: Repair in repair.go
	FileMisnamed = "misnamed"    // ends in .wal, and is no segment by its name
	FileCreating = "creating"    // a WAL folder whose making was interrupted: Create in wal.go
	FileAside    = "put_aside"   // a WAL folder that could not be made: cleanupWAL in wal.go
	FileUnknown  = "not_of_etcd" // anything else
)

// otherFiles lists what is in a WAL folder beside its segments, and what the
// making of one leaves beside the folder.
func otherFiles(dir string) ([]OtherFile, error) {
	out := []OtherFile{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return out, unreadable(dir, err)
	}
	for _, e := range entries {
		if _, _, ok := parseName(e.Name()); ok {
			continue
		}
		f := OtherFile{Name: e.Name()}
		f.Kind, f.Means = meaning(e.Name())
		if err := f.size(e); err != nil {
			return out, unreadable(filepath.Join(dir, e.Name()), err)
		}
		out = append(out, f)
	}
	path, err := filepath.Abs(dir)
	if err != nil || filepath.Base(path) != "wal" {
		return out, nil // its neighbours can be anything
	}
	beside, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return out, nil // which says nothing of the log
	}
	for _, e := range beside {
		f := OtherFile{Name: filepath.Join("..", e.Name())}
		switch {
		case e.Name() == "wal.tmp":
			f.Kind, f.Means = FileCreating, "the making of a WAL was interrupted here; etcd removes it when it makes one anew"
		case strings.HasPrefix(e.Name(), "wal.broken."):
			f.Kind, f.Means = FileAside, "etcd made a WAL, could not sync it to disk, and put it aside; nothing uses it"
		default:
			continue
		}
		out = append(out, f)
	}
	return out, nil
}

func (f *OtherFile) size(e os.DirEntry) error {
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // renamed by the server since
	}
	if err == nil {
		f.Bytes = info.Size()
	}
	return err
}

// meaning says what a file in a WAL folder is. etcd passes over all of them.
func meaning(name string) (kind, means string) {
	switch {
	case strings.HasSuffix(name, ".tmp"):
		return FilePrepared, "room for the next segment, made beforehand; a server that was killed leaves it, and the next start uses it again"
	case strings.HasSuffix(name, ".wal.broken"):
		return FileBroken, "what " + strings.TrimSuffix(name, ".broken") + " was before etcd cut off a record that was not whole; nothing uses it"
	case strings.HasSuffix(name, ".wal"):
		return FileMisnamed, "not SEQUENCE-INDEX.wal: etcd warns of it and passes over it"
	}
	return FileUnknown, "not of etcd, which passes over it"
}
