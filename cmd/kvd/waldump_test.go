package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// dumpedEntry is a line of `kvd wal dump -o json`, as far as the recorded trace
// can be compared with it.
type dumpedEntry struct {
	Type    string
	Request struct {
		Compare []struct {
			Target, Key string
			Value       int64
		}
		Success, Failure []struct {
			Op, Key    string
			ValueBytes int `json:"value_bytes"`
			Lease      string
			Kubernetes *struct{ Resource string }
		}
		Revision int64
		TTL      int64 `json:"ttl_seconds"`
	}
}

// What an API server wrote is in the log, request for request, with its
// conditions, both branches, and its objects named; and the counts are of that.
func TestWALOfAnAPIServer(t *testing.T) {
	t.Parallel()
	kvd, err := exec.LookPath("kvd") // this test binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	c := servertest.Start(t, servertest.Options{Options: local.Options{Command: local.Command{Path: kvd, Args: []string{"serve"}}, Args: []string{"--unsafe-no-fsync"}}})
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // of no consequence
	trace := readTrace(t)
	if err := replayTrace(servertest.Context(t, time.Minute), client, trace); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(kvd, "wal", "dump", c.DataDir(0), "-o", "json", "--type", "txn,compaction,lease_grant").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	unnamed := 0
	for line := range bytes.Lines(out) {
		var e dumpedEntry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		var s strings.Builder
		for _, c := range e.Request.Compare {
			fmt.Fprintf(&s, "if %s %s %d;", strings.TrimSuffix(strings.ToUpper(c.Target), "_REVISION"), c.Key, c.Value)
		}
		for _, o := range e.Request.Success {
			fmt.Fprintf(&s, "then %s %s %d %v;", o.Op, o.Key, o.ValueBytes, o.Lease != "")
			if strings.HasPrefix(o.Key, "/registry/") && o.Kubernetes == nil {
				unnamed++
			}
		}
		for _, o := range e.Request.Failure {
			fmt.Fprintf(&s, "else %s %s %d %v;", o.Op, o.Key, o.ValueBytes, o.Lease != "")
		}
		got = append(got, fmt.Sprintf("%s %d %d %s", e.Type, e.Request.Revision, e.Request.TTL, s.String()))
	}
	var want []string
	writes := 0
	for _, w := range tracedWrites(trace) {
		var s strings.Builder
		for _, c := range w.req.Compare {
			fmt.Fprintf(&s, "if %s %s %d;", c.Target, c.Key, c.Value)
		}
		branch := func(name string, ops []traceOp) {
			for _, o := range ops {
				fmt.Fprintf(&s, "%s %s %s %d %v;", name, o.Op, o.Key, max(o.ValueBytes, len(o.Value)), o.Lease != "" && o.Lease != "0")
				if o.Op != "range" {
					writes++
				}
			}
		}
		branch("then", w.req.Then)
		branch("else", w.req.Else)
		switch w.req.Method {
		case "KV/Compact":
			want = append(want, fmt.Sprintf("compaction %d 0 ", w.req.Revision))
		case "Lease/LeaseGrant":
			want = append(want, fmt.Sprintf("lease_grant 0 %d ", max(w.req.TTL, replayedLeaseTTL)))
		default:
			want = append(want, "txn 0 0 "+s.String())
		}
	}
	if len(got) != len(want) || unnamed > 0 {
		t.Errorf("%d entries, %d requests; %d keys unnamed", len(got), len(want), unnamed)
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%d: %s\nsent %s", i, got[i], want[i])
		}
	}
	sameAsEtcd(t, kvd, c.DataDir(0))
	out, err = exec.Command(kvd, "wal", "stats", c.DataDir(0), "-o", "json", "--top", "0").Output()
	if err != nil {
		t.Fatal(err)
	}
	var stats struct{ Prefixes []struct{ Count int } }
	if err := json.Unmarshal(out, &stats); err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, p := range stats.Prefixes {
		counted += p.Count
	}
	if counted != writes || writes < 200 {
		t.Errorf("%d writes counted, %d sent", counted, writes)
	}
}

// sameAsEtcd compares a dump with the entries that etcd's own reader finds, and with
// the requests that etcd's own messages make of them.
func sameAsEtcd(t *testing.T, kvd, data string) {
	t.Helper()
	w, err := etcdwal.OpenForRead(zap.NewNop(), filepath.Join(data, "member", "wal"), &walpb.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() //nolint:errcheck // nothing was written
	_, _, entries, err := w.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(kvd, "wal", "dump", data, "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) < len(entries) || len(entries) < 250 { // the server may have written since
		t.Fatalf("%d entries, etcd reads %d", len(lines), len(entries))
	}
	for i, e := range entries {
		want := "noop"
		if e.GetType() == raftpb.EntryConfChange {
			want = "conf_change"
		} else if len(e.Data) > 0 {
			var r pb.InternalRaftRequest
			if err := proto.Unmarshal(e.Data, &r); err != nil {
				t.Fatal(err)
			}
			r.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
				if f.Kind() == protoreflect.MessageKind && f.Name() != "header" {
					want = string(f.Name())
				}
				return true
			})
		}
		var got struct {
			Index, Term uint64
			Type        string
		}
		if err := json.Unmarshal(lines[i], &got); err != nil || got.Index != e.GetIndex() || got.Term != e.GetTerm() || got.Type != want {
			t.Fatalf("%+v, %v; etcd reads %s at %d of term %d", got, err, want, e.GetIndex(), e.GetTerm())
		}
	}
}
