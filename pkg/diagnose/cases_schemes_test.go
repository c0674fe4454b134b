package diagnose_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Two of three members were started with TLS for their peers, and the member list was not
// told: all looks well, and the next failure leaves two that do not reach each other.
func TestCasePeersHalfwayToTLS(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3}})
	ctx := servertest.Context(t, time.Minute)
	for _, i := range []int{1, 2} {
		stop(t, c, i)
		if err := c.StartMember(ctx, i, "--peer-auto-tls", "--listen-peer-urls=https"+strings.TrimPrefix(c.PeerURL(i), "http")); err != nil {
			t.Fatal(err)
		}
	}
	told := strings.Join(of(look(t, connect(t, c)), "KVD-NET-002"), "\n")
	for _, i := range []int{1, 2} {
		mentions(t, told, fmt.Sprintf("critical the peer URL of %s is %s, and it speaks TLS there", c.Name(i), c.PeerURL(i)))
	}
	mentions(t, told, c.Name(1)+" and "+c.Name(2)+" do not reach each other")
	stop(t, c, 0)
	var r diagnose.Report
	waitFor(t, func() bool { r = look(t, connect(t, c)); return len(of(r, "KVD-RAFT-001")) > 0 })
	if by := finding(t, r, "KVD-RAFT-001").ExplainedBy; !slices.Contains(by, "KVD-NET-002") {
		t.Errorf("explained by %q", by)
	}
	if f := finding(t, r, "KVD-NET-002"); !strings.HasPrefix(f.Remedy[0], "start "+f.Subject+" with --listen-peer-urls as the member list has it") {
		t.Errorf("%q", f.Remedy)
	}
}
