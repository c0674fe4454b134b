//go:build long

package cluster_test

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// etcd's grpc-proxy says that it is the only member. It is taken neither for a member nor
// for a cluster without its quorum, given alone or beside a member.
func TestGRPCProxyIsNoMember(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{Options: local.Options{}})
	addr := closedPort(t)
	proxy := exec.Command(servertest.Reference(t, "etcd"), "grpc-proxy", "start", "--endpoints="+hostOf(s.Endpoint(0)),
		"--listen-addr="+addr, "--advertise-client-url="+addr, "--data-dir="+t.TempDir())
	proxy.Stdout, proxy.Stderr = io.Discard, io.Discard
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Process.Kill(); _ = proxy.Wait() })
	alone := connect(t, ep("http://"+addr))
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, err := alone.View(t.Context())
		if fault.CauseOf(err) == cluster.CauseGRPCProxy && fault.KindOf(err) == fault.Unavailable {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the proxy alone: %v", err)
		}
	}
	v := view(t, connect(t, ep("http://"+addr, s.Endpoint(0))))
	if len(v.Members) != 1 || v.Members[0].Status == nil || v.Members[0].Endpoint != s.Endpoint(0) || len(v.Unreached) != 1 {
		t.Errorf("beside a member: %+v", v)
	}
}
