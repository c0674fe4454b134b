package diagnose

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kvd/pkg/ops/snapshot"
)

// AddBackups looks for the newest snapshot in a folder and below it. Its time is
// that of its manifest, or of the file where there is none. What cannot be read is noted,
// and the rest looked at all the same.
func (in *Input) AddBackups(dir string) {
	b := Backups{Dir: dir}
	var unread error
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			unread = cmp.Or(unread, err)
			return nil
		}
		if d.IsDir() || strings.HasPrefix(d.Name(), ".") || noBackup(path) {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) { // removed since, as old ones are
				unread = cmp.Or(unread, err)
			}
			return nil
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
	if unread != nil {
		in.Missing = append(in.Missing, Missing{Need: NeedBackups, Subject: dir, Why: unread.Error(), Hint: "--backups wants a directory that can be read", Denied: errors.Is(unread, fs.ErrPermission)})
		b.Unread = unread.Error()
	}
	in.Backups = &b
}

// noBackup reports files that lie beside snapshots and are none: those that are empty or
// text, as manifests, checksums and the log of a job that fails are, and what etcdctl was
// writing when it ended (partpath in client/v3/snapshot/v3_snapshot.go).
func noBackup(path string) bool {
	if strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".part") {
		return true
	}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() { // to open a pipe would wait for ever
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false // it is there, and old or new
	}
	defer f.Close() //nolint:errcheck // only read
	var head [512]byte
	n, err := io.ReadFull(f, head[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	return isText(head[:n]) && !isEncrypted(head[:n])
}

// isText reports that nothing in b is what only binary data have.
func isText(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c < ' ' && !strings.ContainsRune("\t\n\r\f\x1b", rune(c)) })
}

// isEncrypted knows snapshots that are text as they were encrypted so: by gpg and age
// with --armor, by age for many recipients, by openssl enc -a and by ansible-vault.
func isEncrypted(b []byte) bool {
	return slices.ContainsFunc([]string{"-----BEGIN ", "age-encryption.org/", "U2FsdGVkX1", "$ANSIBLE_VAULT;"},
		func(begins string) bool { return bytes.HasPrefix(b, []byte(begins)) })
}
