package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/pkg/v3/pbutil"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// segmentBytes makes etcd begin a new segment soon, so that small logs have many.
const segmentBytes = 64 << 10

func TestMain(m *testing.M) {
	etcdwal.SegmentSizeBytes = segmentBytes
	os.Exit(m.Run())
}

// written is a log that etcd's own code has written.
type written struct {
	dir     string
	last    EntryID
	state   HardState
	entries int64
}

// write lets etcd write a log: entries of sizes up to largest, several for each
// save, new terms whose leader replaces the last entries, snapshot records.
func write(tb testing.TB, dir string, saves, largest int, seed uint64) written {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7))
	meta := pbutil.MustMarshalMessage(&etcdserverpb.Metadata{NodeID: new(uint64(0x8e9e05c52164694d)), ClusterID: new(uint64(0xcdf818194e3a8c32))})
	w, err := etcdwal.Create(nil, dir, meta)
	if err != nil {
		tb.Fatal(err)
	}
	w.SetUnsafeNoFsync()
	out := written{dir: dir}
	index, term, commit := uint64(0), uint64(2), uint64(0)
	for i := range saves {
		if i%17 == 16 { // a new leader, whose log is one entry shorter
			term++
			index = max(commit, index-1)
		}
		var ents []*raftpb.Entry
		for range 1 + rnd.IntN(4) {
			index++
			value := make([]byte, rnd.IntN(largest+1))
			for k := range value {
				value[k] = byte(rnd.UintN(256))
			}
			put := &etcdserverpb.InternalRaftRequest{ID: index, Put: &etcdserverpb.PutRequest{Key: []byte("k"), Value: value}}
			ents = append(ents, &raftpb.Entry{Index: new(index), Term: new(term), Data: pbutil.MustMarshalMessage(put)})
			out.entries++
		}
		st := &raftpb.HardState{Term: new(term), Vote: new(uint64(1)), Commit: new(commit)}
		if err := w.Save(st, ents); err != nil {
			tb.Fatal(err)
		}
		out.state = HardState{Term: term, Vote: 1, Commit: commit}
		commit = index - 1
		if i%29 == 28 {
			snap := &walpb.Snapshot{Index: new(out.state.Commit), Term: new(term), ConfState: &raftpb.ConfState{Voters: []uint64{1, 2}}}
			if err := w.SaveSnapshot(snap); err != nil {
				tb.Fatal(err)
			}
		}
	}
	out.last = EntryID{index, term}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out
}

// memFile is a segment in memory, as etcd's decoder wants it.
type memFile struct {
	*bytes.Reader
	name string
}

func (m memFile) FileInfo() (fs.FileInfo, error) { return m, nil }
func (m memFile) Name() string                   { return m.name }
func (m memFile) Mode() fs.FileMode              { return 0o600 }
func (m memFile) ModTime() time.Time             { return time.Time{} }
func (m memFile) IsDir() bool                    { return false }
func (m memFile) Sys() any                       { return nil }

// seen is a record, as far as it can be compared.
type seen struct {
	typ    int64
	crc    uint32
	data   string
	offset int64 // behind it
}

// byEtcd reads segments with etcd's decoder as ReadAll does, and returns the
// records before the first error.
func byEtcd(segments ...[]byte) (out []seen, err error) {
	var files []fileutil.FileReader
	for i, s := range segments {
		files = append(files, memFile{bytes.NewReader(s), fmt.Sprintf("%016x-%016x.wal", i, i)})
	}
	dec := etcdwal.NewDecoder(files...)
	for {
		var rec walpb.Record
		if err := dec.Decode(&rec); err != nil {
			return out, err
		}
		if rec.GetType() == int64(CRCType) {
			if crc := dec.LastCRC(); crc != 0 && rec.Validate(crc) != nil {
				return out, errChain
			}
			dec.UpdateCRC(rec.GetCrc())
		}
		out = append(out, seen{rec.GetType(), rec.GetCrc(), string(rec.Data), dec.LastOffset()})
	}
}

var errChain = errors.New("chain")

// byUs reads segments with this package's reader.
func byUs(segments ...[]byte) (out []seen, err error) {
	var r reader
	defer r.close()
	for i, s := range segments {
		r.open(Segment{Name: fmt.Sprintf("%016x-%016x.wal", i, i)}, bytes.NewReader(s), int64(len(s)), i == len(segments)-1)
		for {
			var rec Record
			if err = r.next(&rec); err != nil {
				break
			}
			out = append(out, seen{int64(rec.Type), uint32(rec.CRC), string(rec.Data), r.off})
		}
		if !errors.Is(err, io.EOF) {
			return out, err
		}
	}
	return out, err
}

// disagree compares the two readers; "" means that they say the same.
func disagree(segments ...[]byte) string {
	want, wantErr := byEtcd(segments...)
	got, gotErr := byUs(segments...)
	var d *Damage
	errors.As(gotErr, &d)
	if d != nil && (d.Class == Unknown || d.Class == Conflict || d.Class == BadData) {
		// What ReadAll finds out only behind its decoder, by a panic or an error.
		want, wantErr = want[:min(len(want), len(got))], nil
		d = nil
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d records, etcd reads %d (%v, etcd %v)", len(got), len(want), gotErr, wantErr)
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("record %d differs: ends at %d, etcd's at %d", i, got[i].offset, want[i].offset)
		}
	}
	if wantErr == nil {
		return ""
	}
	var class Class
	switch {
	case errors.Is(wantErr, io.EOF):
	case errors.Is(wantErr, io.ErrUnexpectedEOF):
		class = Torn
	case errors.Is(wantErr, walpb.ErrCRCMismatch):
		class = BadCRC
	case errors.Is(wantErr, errChain):
		class = BadChain
	default:
		class = Broken
	}
	var ours Class
	if d != nil {
		ours = d.Class
	}
	if ours != class {
		return fmt.Sprintf("%q (%v), etcd says %v", ours, gotErr, wantErr)
	}
	return ""
}

func load(tb testing.TB, dir string) (out [][]byte) {
	tb.Helper()
	segments, err := Segments(dir)
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range segments {
		raw, err := os.ReadFile(filepath.Join(dir, s.Name))
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, raw)
	}
	return out
}
