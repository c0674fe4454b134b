package cluster

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"kvd/pkg/ops/fault"
)

// Members without an ID are told by their names: as kine 0.13.9 listed itself on
// 127.0.0.1:2379, and as etcd's grpc-proxy does.
func TestNoMemberIsNamed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ cause, says, not string }{
		"kine":   {CauseNotEtcd, "kine answers there", "grpc-proxy"},
		"host-1": {CauseGRPCProxy, "grpc-proxy", "kine"},
	} {
		err := errNoMember("http://127.0.0.1:2379", []*pb.Member{{Name: name, ClientURLs: []string{"http://127.0.0.1:2379"}}})
		if text := err.Error() + fault.HintOf(err); fault.CauseOf(err) != want.cause || fault.KindOf(err) != fault.Unavailable ||
			!strings.Contains(text, want.says) || strings.Contains(text, want.not) {
			t.Errorf("%s: %s (%s)", name, text, fault.CauseOf(err))
		}
	}
}
