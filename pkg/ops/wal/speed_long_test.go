//go:build long

package wal

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// bigLog has etcd write a log as an API server makes it: transactions that put a
// value of size bytes under one of so many keys.
func bigLog(tb testing.TB, dir string, entries, size, keys int) {
	tb.Helper()
	etcdwal.SegmentSizeBytes = 64 << 20
	defer func() { etcdwal.SegmentSizeBytes = segmentBytes }()
	w, err := etcdwal.Create(nil, dir, []byte{})
	if err != nil {
		tb.Fatal(err)
	}
	w.SetUnsafeNoFsync()
	rnd := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(rnd.Uint32())
	}
	for i := 1; i <= entries; {
		var ents []*raftpb.Entry
		for ; len(ents) < 100 && i <= entries; i++ {
			key := fmt.Appendf(nil, "/registry/pods/ns-%d/pod-%d", i%keys%50, i%keys)
			data, err := proto.Marshal(&pb.InternalRaftRequest{Header: &pb.RequestHeader{ID: uint64(i)}, Txn: &pb.TxnRequest{
				Compare: []*pb.Compare{{Target: pb.Compare_MOD, Key: key, TargetUnion: &pb.Compare_ModRevision{ModRevision: int64(i)}}},
				Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value}}}},
				Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}}}})
			if err != nil {
				tb.Fatal(err)
			}
			ents = append(ents, &raftpb.Entry{Index: new(uint64(i)), Term: new(uint64(2)), Data: data})
		}
		if err := w.Save(&raftpb.HardState{Term: new(uint64(2)), Commit: new(uint64(i - 1))}, ents); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
}

// Stats and dump of a large log take little time for each entry, and memory that
// does not grow with the log.
func TestSpeed(t *testing.T) {
	const alone = "KVD_TEST_ALONE"
	if os.Getenv(alone) == "" { // the heap is to be that of a process which has done nothing else
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSpeed$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	for name, tc := range map[string]struct{ entries, size, keys int }{
		"300 MB of 6 KiB values":       {48_000, 6 << 10, 5000},
		"a million small entries":      {1_000_000, 50, 5000},
		"a million keys, written once": {1_000_000, 50, 1_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "wal")
			bigLog(t, dir, tc.entries, tc.size, tc.keys)
			start := time.Now()
			s, err := GatherStats(t.Context(), dir, DefaultStatsOptions())
			stats := time.Since(start)
			if err != nil || s.Entries != int64(tc.entries) {
				t.Fatal(s, err)
			}
			if exact := tc.keys <= maxCounted; exact && (s.KeysUncounted.Count != 0 || s.Keys[0].Count != int64((tc.entries+tc.keys-1)/tc.keys)) {
				t.Errorf("%+v, %+v", s.KeysUncounted, s.Keys[0])
			} else if !exact && (s.KeysUncounted.Count == 0 || s.KeysUncounted.Share > 0.001) {
				t.Errorf("uncounted: %+v", s.KeysUncounted)
			}
			if s.Prefixes[0].Count != int64(tc.entries) || len(s.Namespaces) != 10 {
				t.Errorf("%+v", s.Prefixes)
			}
			start = time.Now()
			enc := json.NewEncoder(io.Discard)
			if _, err := Dump(t.Context(), dir, DefaultDumpOptions(), func(l *Line) error { return enc.Encode(l) }); err != nil {
				t.Fatal(err)
			}
			dump := time.Since(start)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			each := func(d time.Duration) time.Duration { return d / time.Duration(tc.entries) }
			t.Logf("stats %v (%v an entry), dump %v (%v), heap %d MiB", stats, each(stats), dump, each(dump), m.HeapSys>>20)
			if tc.size < 100 && each(stats) > 20*time.Microsecond { // 1 µs on a quiet machine; this one need not be quiet
				t.Errorf("stats: %v for each entry", each(stats))
			}
			if m.HeapSys > 256<<20 {
				t.Errorf("%d MiB of heap", m.HeapSys>>20)
			}
		})
	}
}
