package diagnose

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// archiveRead is how much is unpacked of an archive at most to see what is in it. The
// keys, certificates and manifests of a control plane are far smaller. It is no multiple
// of a block of tar (512), so that what ends there does not look like an archive's end.
const archiveRead = 16<<20 - 1

// noBackup reports files that lie beside snapshots and are none: those that are empty or
// hold nothing but text, as manifests, checksums, the log of a job that fails and archives
// of certificates do; a member's log, where its folder was copied; and what etcdctl was
// writing when it ended (partpath in client/v3/snapshot/v3_snapshot.go).
func noBackup(path string) bool {
	if strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".part") || ofRaft().MatchString(filepath.Base(path)) {
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
	if ofBackupRestore().MatchString(filepath.Base(path)) {
		n, _ := f.Read(make([]byte, 1)) //nolint:errcheck // what cannot be read is taken for one
		return n == 0
	}
	return onlyText(f, 2)
}

// ofBackupRestore matches what gardener's etcd-backup-restore keeps: snapshots, and between
// them the changes since the last one, as JSON (pkg/types/snapstore.go, GenerateSnapshotName).
func ofBackupRestore() *regexp.Regexp { return regexp.MustCompile(`^(Full|Incr)-\d+-\d+-\d+`) }

// ofRaft matches the files of a member that are no database
// (server/storage/wal/util.go walName, api/snap/snapshotter.go save).
func ofRaft() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{16}-[0-9a-f]{16}\.(wal|snap)$`) }

// onlyText reports that there is nothing but text in a content, also where that is
// compressed (so many times at most) or an archive. Where that could not be seen to the
// end it is not so.
func onlyText(r io.Reader, unpack int) bool {
	in := bufio.NewReaderSize(r, 512)
	head, err := in.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	switch {
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return onlyTextIn(tar.NewReader(io.LimitReader(in, archiveRead)), unpack)
	case unpack > 0 && bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		return err == nil && onlyText(z, unpack-1)
	}
	return isText(head) && !isEncrypted(head)
}

// onlyTextIn reports that each file of an archive is text.
func onlyTextIn(t *tar.Reader, unpack int) bool {
	for {
		h, err := t.Next()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if h.Typeflag == tar.TypeReg && !onlyText(t, unpack) {
			return false
		}
	}
}

// isText reports that nothing in b is what only binary data have.
func isText(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c < ' ' && !strings.ContainsRune("\t\n\r\f\x1b", rune(c)) })
}

// isEncrypted knows snapshots that are text as they were encrypted so: by gpg and age
// with --armor, by age for many recipients, by openssl enc -a and by ansible-vault.
func isEncrypted(b []byte) bool {
	if label, ok := bytes.CutPrefix(b, []byte("-----BEGIN ")); ok {
		label, _, _ = bytes.Cut(label, []byte("-----"))
		return !bytes.HasSuffix(label, []byte("CERTIFICATE")) && !bytes.HasSuffix(label, []byte(" KEY"))
	}
	return slices.ContainsFunc([]string{"age-encryption.org/", "U2FsdGVkX1", "$ANSIBLE_VAULT;"},
		func(begins string) bool { return bytes.HasPrefix(b, []byte(begins)) })
}
