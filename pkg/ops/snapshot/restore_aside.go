package snapshot

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"

	"kvd/pkg/ops/atomicfile"
	"kvd/pkg/ops/fault"
)

// The names that a restore uses until it has put a folder into its place.
const (
	asideSuffix = ".kvd-restore"     // the folder beside the target: .NAME.kvd-restore
	journalName = "kvd-restore.json" // in it: who works here. Locked while somebody does
	builtName   = "built"            // in it: what becomes the target
	emptyName   = "empty.db"         // in it: a db with nothing in it
	// walMarker is in a WAL folder from its rename to that of the data. etcd
	// ignores files of that ending there.
	walMarker = "kvd-restore.tmp"
)

// target is a folder that a restore makes, and how it gets there: built aside,
// on the same file system, and renamed. Where the folder is there already and
// empty (a mount point, or made with the right owner), it stays, and what is
// renamed is the folder in it.
type target struct {
	path  string // absolute
	aside string // the folder that things are built in
	from  string // below it
	to    string // path, or a folder in it
}

// aim finds out how a folder gets to path, and whether it is free. sub is what is
// moved into a folder that is there; empty means that it is replaced. The folder
// that it is in has to be there, or, where that can be made, the one above.
func aim(path, sub string, makeParent bool) (target, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return target{}, fileError(opRestore, path, err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real // what a link leads to is made, and the link stays
	}
	t := target{path: abs, aside: asideOf(abs), to: abs}
	t.from = filepath.Join(t.aside, builtName)
	_, err = os.Stat(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) && makeParent {
		_, err = os.Stat(filepath.Dir(filepath.Dir(abs)))
	}
	if err != nil {
		return t, &fault.Error{Kind: fault.Usage, Cause: "no_parent", Op: opRestore, Subject: abs, Err: err, Hint: "make the folder that it is to be in"}
	}
	info, err := os.Lstat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return t, fileError(opRestore, abs, err)
	case !info.IsDir():
		return t, occupied(abs, "a file or a link, not a folder")
	default:
		return aimInto(t, sub)
	}
	return t, nil
}

// asideOf is the folder beside a path in which it is built.
func asideOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+asideSuffix)
}

// aimInto aims at a folder that is there.
func aimInto(t target, sub string) (target, error) {
	names, err := namesIn(t.path)
	if err != nil {
		return t, fileError(opRestore, t.path, err)
	}
	top := slices.Contains(names, "lost+found")
	names = slices.DeleteFunc(names, func(n string) bool { return n == asideSuffix || n == "lost+found" })
	if len(names) > 0 {
		return t, occupied(t.path, describeDir(t.path, names))
	}
	if sub == "" && (top || isMountPoint(t.path)) {
		return t, &fault.Error{Kind: fault.Refused, Cause: "target_exists", Op: opRestore, Subject: t.path,
			Msg: "a file system is mounted there, and the folder of a log is put into its place as a whole", Hint: "give a folder in it, as " + filepath.Join(t.path, "wal")}
	}
	if sub != "" {
		t.aside, t.to = filepath.Join(t.path, asideSuffix), filepath.Join(t.path, sub)
		t.from = filepath.Join(t.aside, builtName, sub)
	}
	return t, nil
}

func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func occupied(path, what string) error {
	return &fault.Error{Kind: fault.Refused, Cause: "target_exists", Op: opRestore, Subject: path,
		Msg: "there is something already: " + what, Hint: "it is left as it is; give another folder, or move it away"}
}

// journal is what a restore notes down beside its target before it begins.
type journal struct {
	ID      string `json:"id"`
	Purpose string `json:"purpose"`
	WALDir  string `json:"wal_dir,omitempty"` // the WAL folder that is put into its place first
}

// workplace is a folder beside a target that one restore works in. The lock on
// its journal ends with the process that has it.
type workplace struct {
	target
	lock    *fileutil.LockedFile
	old     *journal // of an interrupted restore, whose left-overs are gone now
	journal journal
}

// open makes the folder beside the target and takes it for this process. What an
// interrupted restore has left there is removed; a folder with anything else in it
// is refused.
func (t target) open(walDir string) (*workplace, error) {
	switch err := os.Mkdir(t.aside, 0o700); {
	case errors.Is(err, fs.ErrExist):
		names, err := namesIn(t.aside)
		if errors.Is(err, fs.ErrNotExist) { // another restore has ended, just now
			return nil, t.underWay()
		}
		if err != nil {
			return nil, fileError(opRestore, t.aside, err)
		}
		for _, n := range names {
			if n != journalName && n != builtName && n != emptyName {
				return nil, occupied(t.aside, fmt.Sprintf("a folder with %q in it, which no restore has left", n))
			}
		}
	case err != nil:
		return nil, fileError(opRestore, t.aside, err)
	}
	w := &workplace{target: t, journal: journal{ID: rand.Text(), Purpose: "a restore that is under way; kvd removes it where that was interrupted", WALDir: walDir}}
	if err := w.take(); err != nil {
		return nil, err
	}
	if err := w.clear(); err != nil {
		return nil, errors.Join(fileError(opRestore, t.aside, err), w.lock.Close())
	}
	return w, nil
}

// take locks the journal and reads what is in it.
func (w *workplace) take() error {
	path := filepath.Join(w.aside, journalName)
	lock, err := fileutil.TryLockFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
		return w.underWay()
	}
	if err != nil {
		return fileError(opRestore, path, err)
	}
	// Another restore may have ended, and taken its journal away, between our
	// opening it and the lock.
	mine, err := lock.Stat()
	if err == nil {
		var there fs.FileInfo
		if there, err = os.Lstat(path); err == nil && !os.SameFile(mine, there) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return errors.Join(w.underWay(), lock.Close())
	}
	w.lock = lock
	if raw, err := io.ReadAll(io.LimitReader(lock, maxRecipe)); err == nil && len(raw) > 0 {
		w.old = &journal{}
		_ = json.Unmarshal(raw, w.old) // cut while it was written: then nothing was built either
	}
	return nil
}

func (t target) underWay() error {
	return &fault.Error{Kind: fault.Refused, Cause: "under_way", Op: opRestore, Subject: t.path,
		Msg: "another restore to there is under way", Hint: "wait for it; " + t.aside + " is where it works"}
}

// begin writes the journal, once what an old one speaks of is gone.
func (w *workplace) begin() error {
	raw, err := json.Marshal(w.journal)
	if err == nil {
		err = w.lock.Truncate(0)
	}
	if err == nil {
		_, err = w.lock.WriteAt(append(raw, '\n'), 0)
	}
	if err == nil {
		err = w.lock.Sync()
	}
	if err == nil {
		err = errors.Join(atomicfile.SyncDir(w.aside), atomicfile.SyncDir(filepath.Dir(w.aside)))
	}
	if err != nil {
		return fileError(opRestore, w.aside, err)
	}
	return nil
}

// place puts what was built into its place. Everything in it is on disk before,
// and its new name when place returns.
func (w *workplace) place() error {
	if err := syncTree(w.from); err != nil {
		return fileError(opRestore, w.from, err)
	}
	var err error
	if info, serr := os.Lstat(w.to); serr == nil && info.IsDir() {
		err = os.Remove(w.to) // an empty folder makes way, and nothing else does
	}
	if err == nil {
		err = atomicfile.Rename(w.from, w.to)
	}
	if errors.Is(err, fs.ErrExist) {
		return occupied(w.to, "it was put there while this restore was under way")
	}
	if err != nil {
		return fileError(opRestore, w.to, err)
	}
	return nil
}

// close removes the folder beside the target and lets go of it.
func (w *workplace) close() error {
	err := errors.Join(w.clear(), os.Remove(filepath.Join(w.aside, journalName)), os.Remove(w.aside), atomicfile.SyncDir(filepath.Dir(w.aside)), w.lock.Close())
	if err != nil {
		return fileError(opRestore, w.aside, err)
	}
	return nil
}

func (w *workplace) clear() error {
	return errors.Join(os.RemoveAll(filepath.Join(w.aside, builtName)), os.RemoveAll(filepath.Join(w.aside, emptyName)))
}

// ownsWAL says whether a WAL folder is one that the journal's restore had put into
// its place before it was interrupted.
func (j *journal) ownsWAL(dir string) bool {
	if j == nil || j.ID == "" {
		return false
	}
	raw, err := os.ReadFile(filepath.Join(dir, walMarker))
	return err == nil && strings.TrimSpace(string(raw)) == j.ID
}

// readJournal reads the journal of an interrupted restore, nil where there is none.
func readJournal(aside string) *journal {
	raw, err := os.ReadFile(filepath.Join(aside, journalName))
	j := &journal{}
	if err != nil || json.Unmarshal(raw, j) != nil {
		return nil
	}
	return j
}

// syncTree writes all files and folders below dir to disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() && !d.Type().IsRegular() {
			return nil
		}
		return atomicfile.SyncDir(path) // a file is fsynced as a folder is
	})
}
