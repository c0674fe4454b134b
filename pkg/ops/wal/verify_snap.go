package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxSnapFile is how long a .snap file is read for its CRC: they hold the members and
// little else.
const maxSnapFile = 16 << 20

// remarkSnaps tells of .snap files beside the database that are damaged, or of no
// snapshot record in the log. Up to etcd 3.6 a start reads them; that of 3.7 makes do
// with the records (recoverSnapshot in server/etcdserver/bootstrap.go), so that none
// of this matters to it. A running server may be writing one, so then none is read.
func (x *exam) remarkSnaps(dir string) {
	names, err := fs.Glob(os.DirFS(dir), "*.snap")
	if err != nil || x.Live != "" {
		return
	}
	for _, name := range names {
		why, err := SnapFileDamage(filepath.Join(dir, name))
		var term, index uint64
		_, notName := fmt.Sscanf(name, "%016x-%016x.snap", &term, &index)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed since
			continue
		case err != nil:
			why = err.Error()
		case why != "":
		case notName != nil:
			why = "its name is not TERM-INDEX.snap"
		case x.stop == nil && !x.mayHaveSaved(Snapshot{index, term}):
			why = fmt.Sprintf("the log has no snapshot record of index %d and term %d", index, term)
		}
		if why != "" {
			x.add(Remark, CauseSnapFile, "", "%s: %s; a start of etcd 3.7 does not read it, one of 3.6 and older does", name, why)
		}
	}
}

// mayHaveSaved reports whether the log has a snapshot record, or had it in a segment
// that was removed since.
func (x *exam) mayHaveSaved(s Snapshot) bool {
	return len(x.snaps) == 0 || x.segments[0].Seq > 0 && s.Index < x.segments[0].Index ||
		slices.ContainsFunc(x.snaps, func(m Mark) bool { return m.Snapshot == s })
}

// SnapFileDamage says what is wrong with a .snap file, a snappb.Snapshot (crc = 1, data = 2;
// read in server/etcdserver/api/snap/snapshotter.go); "" is nothing, and of a file longer
// than 16 MiB that it was not read. An error is that it cannot be read.
func SnapFileDamage(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSnapFile+1))
	if err != nil || len(raw) > maxSnapFile {
		return "", err
	}
	var stored CRC
	var data []byte
	whole := walk(raw, func(num protowire.Number, v uint64) {
		if num == 1 {
			stored = CRC(v) //nolint:gosec // cut to 32 bits, as protobuf does
		}
	}, func(num protowire.Number, v []byte) {
		if num == 2 {
			data = v
		}
	})
	switch sum := CRC(crc32.Checksum(data, castagnoli)); {
	case !whole || len(data) == 0:
		return "it is no snapshot", nil
	case sum != stored:
		return fmt.Sprintf("its CRC is stored as %s and computed as %s", stored, sum), nil
	}
	return "", nil
}
