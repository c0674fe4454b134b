//go:build long

package cluster_test

import (
	"testing"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Servers before 3.6 refuse maintenance in words of their own. A token that has expired is
// renewed there, too, and who may not is told so.
func TestMaintenanceIsRefusedByOldServers(t *testing.T) {
	for _, version := range []string{"3.4", "3.5", "3.6"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			o := local.Options{Command: local.Command{Path: servertest.OldServer(t, version)}, Args: []string{"--auth-token-ttl=1"}}
			s := servertest.Start(t, servertest.Options{Options: o})
			s.EnableAuth(t, servertest.User{Name: "ann", Password: "p", Prefix: "a"})
			for user, password := range map[string]string{"root": servertest.RootPassword, "ann": "p"} {
				cfg := ep(s.Endpoints()...)
				cfg.User, cfg.Password = user, password
				c := connect(t, cfg)
				m, err := c.Member(view(t, c).Members[0].ID)
				if err != nil {
					t.Fatal(err)
				}
				want := ""
				if user != "root" {
					want = cluster.CausePermissionDenied
				}
				for range 2 {
					<-time.After(2500 * time.Millisecond)
					if err := m.Defragment(t.Context()); fault.CauseOf(err) != want {
						t.Errorf("%s: defragment: %v", user, err)
					}
					<-time.After(2500 * time.Millisecond)
					stream, err := m.Snapshot(t.Context())
					if fault.CauseOf(err) != want {
						t.Errorf("%s: snapshot: %v", user, err)
					}
					if err == nil {
						stream.Close()
					}
				}
			}
		})
	}
}
