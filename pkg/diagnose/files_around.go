package diagnose

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/wal"
)

// SnapFile is a .snap file: raft's snapshot beside the record of it in the log.
type SnapFile struct {
	Name    string
	Damaged string // why it cannot be read; empty: it can
	Known   bool   // the log has a record of its term and index
}

// lookAround lists what lies in member/snap beside the database. Since 3.7 a start
// reads no .snap file: it takes the snapshot's place from the log
// (recoverSnapshot in server/etcdserver/bootstrap.go).
func (d *Dir) lookAround() error {
	dir := filepath.Join(d.memberDir(), "snap")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.OfFile(op, dir, "data_dir", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), ".snap"):
			d.Snaps = append(d.Snaps, readSnap(path, d.Marks))
		case strings.HasPrefix(e.Name(), "db.tmp."):
			d.left(path, "the copy of a defragmentation that was killed; etcd 3.7 never removes it")
		case strings.HasPrefix(e.Name(), "tmp"):
			d.left(path, "a database that a leader was sending; the next start removes it")
		case strings.HasSuffix(e.Name(), ".broken"):
			d.left(path, "put aside by a start that could not read it")
		}
	}
	if d.Log == nil || d.Log.Dir == "" {
		return nil
	}
	broken, err := fs.Glob(os.DirFS(d.Log.Dir), "*.broken")
	for _, name := range broken {
		d.left(filepath.Join(d.Log.Dir, name), "a segment as it was before etcd repaired it")
	}
	return err
}

func (d *Dir) left(path, means string) {
	if info, err := os.Stat(path); err == nil {
		d.Left = append(d.Left, LeftFile{path, info.Size(), means})
	}
}

// readSnap says of a .snap file whether a start of etcd before 3.7, which reads it, can,
// and whether the log knows it.
func readSnap(path string, marks []wal.Mark) SnapFile {
	s := SnapFile{Name: filepath.Base(path)}
	var term, index uint64
	if _, err := fmt.Sscanf(s.Name, "%016x-%016x.snap", &term, &index); err == nil {
		for _, m := range marks {
			s.Known = s.Known || m.Index == index && m.Term == term
		}
	}
	why, err := wal.SnapFileDamage(path)
	if err != nil {
		why = err.Error()
	}
	s.Damaged = why
	return s
}

// bytesField is a field of a protobuf message, nil where it is not there or the message is
// none.
func bytesField(b []byte, field protowire.Number) []byte {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if num == field && typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b)
			return v
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return nil
		}
		b = b[n:]
	}
	return nil
}
