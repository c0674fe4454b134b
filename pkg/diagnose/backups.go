package diagnose

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"kvd/pkg/ops/snapshot"
)

// AddBackups looks for the newest snapshot in a folder and below it. Its time is
// that of its manifest, or of the file where there is none.
func (in *Input) AddBackups(dir string) {
	b := Backups{Dir: dir}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || strings.HasSuffix(path, ".json") || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		at := info.ModTime()
		if m, err := snapshot.ReadManifest(snapshot.ManifestPath(path)); err == nil && !m.EndedAt.IsZero() {
			at = m.EndedAt
		}
		b.Count++
		if at.After(b.At) {
			b.Newest, b.At = path, at
		}
		return nil
	})
	if err != nil {
		in.Missing = append(in.Missing, Missing{Need: NeedBackups, Subject: dir, Why: err.Error(), Hint: "--backups wants a directory that can be read", Denied: errors.Is(err, fs.ErrPermission)})
		b.Unread = err.Error()
	}
	in.Backups = &b
}
