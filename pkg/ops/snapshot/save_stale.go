package snapshot

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kvd/pkg/ops/progress"
)

// staleAfter is how long nobody must have written to a file that has not got its
// name for it to be taken for one that was left behind, beside that nobody has it
// locked.
const staleAfter = time.Hour

// sweep removes what saves that were killed have left in the folders that this one
// writes to. Where each backup has a name of its own nothing else ever would, and
// each is a whole database. Where the file system has no locks everything stays.
func (s *save) sweep() {
	dirs := []string{}
	if s.o.Dest != Stdout {
		dirs = append(dirs, filepath.Dir(s.o.Dest))
	}
	if s.o.Manifest != "" {
		dirs = append(dirs, filepath.Dir(s.o.Manifest))
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // what is wrong with it shows when it is written to
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), partSuffix) && s.stale(e) && s.removeLeft(filepath.Join(dir, e.Name())) {
				s.sink.Event(progress.Event{Warning: true, Note: filepath.Join(dir, e.Name()) + " is removed: a save that was killed has left it"})
			}
		}
	}
}

func (s *save) stale(e fs.DirEntry) bool {
	info, err := e.Info()
	return err == nil && info.Mode().IsRegular() && s.began.Sub(info.ModTime()) > staleAfter
}

// removeLeft removes a file if it is certain that nobody has it locked.
func (s *save) removeLeft(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return tryLock(f) == nil && os.Remove(path) == nil
}
