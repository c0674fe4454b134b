//go:build long

package local_test

import (
	"strings"
	"testing"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// The same cluster of stock etcd: started, stopped and joined the same way. Its
// binary ends by the signal it was sent, which counts as an orderly end.
func TestStockEtcd(t *testing.T) {
	for _, members := range []int{1, 3} {
		o := servertest.Options{EqualContent: true, Options: local.Options{
			Members: members, TLS: servertest.NewCerts(t).MutualTLS(),
			Command: local.Command{Path: servertest.Reference(t, "etcd")},
		}}
		c := servertest.Start(t, o)
		if _, err := c.Client(t).Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
		want(t, c, 0, "v")
		if v := status(t, c, 0).Version; !strings.HasPrefix(v, "3.7.") {
			t.Errorf("version %s", v)
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		for i := range members {
			if code, ok := c.ExitCode(i); !ok || code != -1 {
				t.Errorf("%s: exit code %d (%v), want -1 for SIGTERM", c.Name(i), code, ok)
			}
			if err := c.Launch(i); err != nil {
				t.Error(err)
			}
		}
		if err := c.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
