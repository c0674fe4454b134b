package wal_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap/zaptest"
	"google.golang.org/protobuf/proto"

	"go.etcd.io/raft/v3/raftpb"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A member that was ended when its log was made and nothing was in it (etcd issue 10688),
// or the first entry, and not that it is committed, answers nothing when it is started
// again, if it is the only one.
func TestVerifyAMemberEndedAtBirth(t *testing.T) {
	t.Parallel()
	for name, has := range map[string][]*raftpb.Entry{
		"no entry":    nil,
		"first entry": {{Index: proto.Uint64(1), Term: proto.Uint64(1), Type: raftpb.EntryConfChange.Enum(), Data: firstMember(t)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endedAtBirth(t, has)
		})
	}
}

func firstMember(t *testing.T) []byte {
	t.Helper()
	raw, err := proto.Marshal(&raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: proto.Uint64(0xa1), Context: []byte(`{"id":161,"peerURLs":["http://127.0.0.1:2380"],"name":"m1"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func endedAtBirth(t *testing.T, has []*raftpb.Entry) {
	t.Helper()
	root := t.TempDir()
	born := &trial{t, &victim{}, root, filepath.Join(root, "m1", "data")}
	born.must(os.MkdirAll(filepath.Join(born.data, "member", "snap"), 0o700))
	metadata, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: proto.Uint64(0xa1), ClusterID: proto.Uint64(0xc1)})
	born.must(err)
	w, err := etcdwal.Create(zaptest.NewLogger(t), filepath.Join(born.data, "member", "wal"), metadata)
	born.must(err)
	born.must(w.Save(&raftpb.HardState{}, has))
	born.must(w.Close())
	v, err := wal.Verify(t.Context(), born.data, wal.VerifyOptions{})
	born.must(err)
	if f := v.Worst(); v.Verdict.Outcome != wal.NotKnown || f == nil || f.Severity != wal.Critical || f.Cause != wal.CauseUnborn {
		t.Errorf("%+v, %+v", v.Verdict, v.Findings)
	}
	c, err := local.New(local.Options{Command: local.Command{Path: servertest.Binary(t), Args: []string{"serve"}}, Dir: root, Args: []string{"--unsafe-no-fsync"}})
	born.must(err)
	defer c.Close()
	born.silent(t.Context(), c)
}
