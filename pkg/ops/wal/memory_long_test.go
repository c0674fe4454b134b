//go:build long

package wal_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"kvd/pkg/server/servertest"
)

// mostMemory is what any look at any log may take, in bytes.
const mostMemory = 64 << 20

// Memory does not grow with the log, whatever is in it, and whatever is asked for.
func TestMemoryOfEveryLog(t *testing.T) {
	put := func(key string, value int, lease int64) *pb.InternalRaftRequest {
		return &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte(key), Value: make([]byte, value), Lease: lease}}
	}
	for name, tc := range map[string]struct {
		n    int
		each func(i int) *pb.InternalRaftRequest
	}{
		"keys of 600 bytes": {200_000, func(i int) *pb.InternalRaftRequest {
			return put(fmt.Sprintf("/%s-%d/%d", strings.Repeat("k", 560), i/7, i), 10, 0)
		}},
		"keys of 1 MB": {300, func(i int) *pb.InternalRaftRequest {
			return put(fmt.Sprintf("/%s-%d/x/%d", strings.Repeat("k", 1_000_000), i, i), 10, 0)
		}},
		"values of 1.4 MB": {300, func(i int) *pb.InternalRaftRequest { return put(fmt.Sprint("/k/", i), 1_400_000, 0) }},
		"a lease with 100,000 keys": {100_003, func(i int) *pb.InternalRaftRequest {
			switch i {
			case 0:
				return &pb.InternalRaftRequest{LeaseGrant: &pb.LeaseGrantRequest{ID: 7, TTL: 60}}
			case 100_001:
				return &pb.InternalRaftRequest{LeaseRevoke: &pb.LeaseRevokeRequest{ID: 7}}
			}
			return put(fmt.Sprintf("/events/some-name-of-an-event-%06d", i), 10, 7)
		}},
		"a user for each entry": {100_000, func(i int) *pb.InternalRaftRequest {
			r := put(fmt.Sprint("/k/", i), 10, 0)
			r.Header = &pb.RequestHeader{Username: fmt.Sprintf("%s-%d", strings.Repeat("u", 500), i)}
			return r
		}},
		"growing entries": {10_000, func(i int) *pb.InternalRaftRequest {
			return put(fmt.Sprintf("/%s/%d", strings.Repeat("k", 2000), i), i, 0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "wal")
			logOf(t, dir, tc.n, tc.each)
			for _, args := range []string{"list", "verify", "stats", "stats --top 0 -o json", "stats --top 100000", "stats --top 2000000000 -o json",
				"dump", "dump -o json", "dump --prefix /", "dump --prefix / --show-values -o json"} {
				cmd := exec.CommandContext(t.Context(), servertest.Binary(t), append([]string{"wal"}, append(strings.Fields(args), dir)...)...)
				var said bytes.Buffer
				cmd.Stderr = &said
				start := time.Now()
				peak, err := peakOf(t, cmd)
				t.Logf("%-40s %3d MiB, %v", args, peak>>20, time.Since(start).Round(10*time.Millisecond))
				if peak > mostMemory {
					t.Errorf("%s: %d MiB", args, peak>>20)
				}
				if err != nil && args != "verify" { // the folder has no database
					t.Errorf("%s: %v\n%s", args, err, said.String())
				}
			}
		})
	}
}

// peakOf runs a command, and returns the most memory of its own that it was seen to have, in bytes.
// What the system tells of a process that has ended counts the one that started it.
func peakOf(t *testing.T, cmd *exec.Cmd) (peak int64, err error) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return peak, err
		case <-time.After(time.Millisecond):
		}
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			continue
		}
		if !strings.HasPrefix(string(raw), "Name:\t"+filepath.Base(cmd.Path)+"\n") {
			continue // still this process
		}
		if _, after, found := strings.Cut(string(raw), "RssAnon:"); found {
			kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			peak = max(peak, kib<<10)
		}
	}
}

// logOf has etcd write a log of such entries.
func logOf(t *testing.T, dir string, n int, each func(int) *pb.InternalRaftRequest) {
	t.Helper()
	metadata, err := proto.Marshal(&pb.Metadata{NodeID: proto.Uint64(1), ClusterID: proto.Uint64(2)})
	if err != nil {
		t.Fatal(err)
	}
	w, err := etcdwal.Create(nil, dir, metadata)
	if err != nil {
		t.Fatal(err)
	}
	w.SetUnsafeNoFsync()
	for i := 0; i < n; {
		var entries []*raftpb.Entry
		for size := 0; i < n && size < 4<<20 && len(entries) < 1000; i++ {
			r := each(i)
			if r.Header == nil {
				r.Header = &pb.RequestHeader{}
			}
			r.Header.ID = uint64(i + 1)
			data, err := proto.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			size += len(data)
			entries = append(entries, &raftpb.Entry{Index: proto.Uint64(uint64(i + 1)), Term: proto.Uint64(2), Data: data})
		}
		if err := w.Save(&raftpb.HardState{Term: proto.Uint64(2), Commit: proto.Uint64(uint64(i))}, entries); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
