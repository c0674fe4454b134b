package diagnose

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/snapshot"
)

// clockSkew is how far ahead of this machine's the clock of another may be that made a
// backup, or that of the server whose disk it is on.
const clockSkew = 5 * time.Minute

// AddBackups looks for the newest snapshot in a folder and below it. Its time is
// that of its manifest, or of the file where there is none, and of what a link leads to.
// What cannot be read is noted, and the rest looked at all the same. Of each file no more
// is read than shows what it is: whether it is whole, `kvd snapshot verify` tells.
func (in *Input) AddBackups(dir string) {
	b, own := Backups{Dir: dir}, in.clusterID()
	root := dir
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		root = real // a walk does not go into a link
	}
	var unread error
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			unread = cmp.Or(unread, err)
			return nil
		}
		if d.IsDir() || strings.HasPrefix(d.Name(), ".") || noBackup(path) {
			return nil
		}
		info, err := os.Stat(path)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) { // removed since, as old ones are
				unread = cmp.Or(unread, err)
			}
			return nil
		}
		f := BackupFile{At: info.ModTime(), Why: cutShort(path, info.Size())}
		newest := &b.Cut
		if m, err := snapshot.ReadManifest(snapshot.ManifestPath(path)); err == nil && !m.EndedAt.IsZero() {
			switch {
			case m.SizeBytes > info.Size() && m.SnapshotBytes != m.SizeBytes && m.File == d.Name(): // it is compressed: else its pages tell
				f.Why = fmt.Sprintf("it has %d of the %d bytes that its manifest tells", info.Size(), m.SizeBytes)
			case m.SizeBytes == info.Size():
				f.At = m.EndedAt
				if of := m.ClusterID.String(); own != "" && of != own && f.Why == "" {
					newest, f.Why = &b.Other, "by its manifest it is of cluster "+of+", and this one is "+own
				}
			}
		}
		f.Name = path
		if rel, err := filepath.Rel(root, path); err == nil {
			f.Name = filepath.Join(dir, rel)
		}
		b.take(in.At, f, newest)
		return nil
	})
	if unread != nil {
		in.Missing = append(in.Missing, Missing{Need: NeedBackups, Subject: dir, Why: unread.Error(), Hint: "--backups wants a directory that can be read", Denied: errors.Is(unread, fs.ErrPermission)})
		b.Unread = unread.Error()
	}
	in.Backups = &b
}

// take counts a file as a backup, or notes it as the newest of those that are none to
// rely on for that reason.
func (b *Backups) take(now time.Time, f BackupFile, newest *BackupFile) {
	switch {
	case f.Why != "":
	case f.At.After(now.Add(clockSkew)):
		f.Why = "its time, " + f.At.Format(time.RFC3339) + ", is in the future here, so that it tells no age"
		newest = &b.Ahead
	default:
		b.Count++
		if f.At.After(b.At) {
			b.Newest, b.At = f.Name, f.At
		}
		return
	}
	if newest.Name == "" || f.At.After(newest.At) {
		*newest = f
	}
}

// cutShort says how much is missing of a file of pages, by its meta pages.
func cutShort(path string, size int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	db, err := dbfile.New(path, f, size)
	if err != nil || db.DataSize() <= size {
		return ""
	}
	return fmt.Sprintf("it is cut short: %d bytes of its pages are missing", db.DataSize()-size)
}
