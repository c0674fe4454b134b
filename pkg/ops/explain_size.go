package ops

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"kvd/pkg/ops/fault"
)

// Limits of etcd's write path, in bytes unless said otherwise.
const (
	// clientSendLimit is what etcd's own Go client sends at most
	// (defaultMaxCallSendMsgSize in client/v3/options.go). kube-apiserver leaves
	// it at that.
	clientSendLimit int64 = 2 << 20
	// transportOverhead is what a server's gRPC takes beyond --max-request-bytes
	// (grpcOverheadBytes in server/v3/config/config.go).
	transportOverhead int64 = 512 << 10
	// maxApplyGap is how many committed entries a member may have to apply and
	// still take new requests (maxGapBetweenApplyAndCommitIndex in
	// server/v3/etcdserver/v3_server.go), in entries.
	maxApplyGap = 5000
)

// smallMessage is a size, in bytes, that is taken to pass any --max-request-bytes:
// Kubernetes would not run with a lower one, so that nobody need be told of it.
const smallMessage int64 = 8 << 10

// largestMessage bounds what a put may be said to have: no protocol buffer is
// larger, in bytes.
const largestMessage int64 = math.MaxInt32

// check refuses sizes that no put can have.
func (w WriteRequest) check() error {
	for _, c := range []struct {
		flag  string
		bytes int64
	}{{"--size", w.Value}, {"--max-request-bytes", w.MaxRequest}, {"--max-call-send-msg-size", w.MaxSend}} {
		if c.bytes < 0 || c.bytes > largestMessage {
			return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "explain write",
				Msg: fmt.Sprintf("%s %d is out of range: no message of etcd is larger than %d bytes", c.flag, c.bytes, largestMessage)}
		}
	}
	return nil
}

// sizeOfField is what a field of bytes takes in a protocol buffer; an empty one
// is left out.
func sizeOfField(number protowire.Number, n int64) int64 {
	if n == 0 {
		return 0
	}
	return int64(protowire.SizeTag(number)) + int64(protowire.SizeVarint(uint64(n))) + n
}

func sizeOfNumber(number protowire.Number, v uint64) int64 {
	if v == 0 {
		return 0
	}
	return int64(protowire.SizeTag(number) + protowire.SizeVarint(v))
}

// messageBytes is the size of the put as a client sends it: a PutRequest
// (api/v3/etcdserverpb/rpc.proto: key 1, value 2, lease 3).
func (w WriteRequest) messageBytes() int64 {
	return sizeOfField(1, int64(len(w.Key))) + sizeOfField(2, w.Value) + sizeOfNumber(3, w.Lease)
}

// requestBytes is the size of the put as the server proposes it to raft, which
// is what it compares with --max-request-bytes: an InternalRaftRequest
// (api/v3/etcdserverpb/raft_internal.proto: put 4, header 100; the header's ID 1,
// username 2, auth_revision 3). The ID begins with the member's low 16 bits and
// goes on with the time (pkg/v3/idutil).
func (w WriteRequest) requestBytes(member uint64, now time.Time, user string, authRevision uint64) int64 {
	id := member<<48 | (uint64(now.UnixMilli())&(1<<40-1))<<8
	header := sizeOfNumber(1, id) + sizeOfField(2, int64(len(user))) + sizeOfNumber(3, authRevision)
	return sizeOfField(4, w.messageBytes()) + sizeOfField(100, header)
}

// quotaCost is what the put costs by etcd's reckoning (costPut in
// server/v3/storage/quota.go).
func (w WriteRequest) quotaCost() int64 { return putOverhead + int64(len(w.Key)) + w.Value }
