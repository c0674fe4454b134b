package server_test

import (
	"os"
	"testing"
	"time"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A forced start would expel members that run, whatever they have: it is refused before
// anything is written. Once they are stopped it makes a cluster of its own.
func TestForcedStartBesideMembersThatRun(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "mTLS"}[secure], func(t *testing.T) {
			t.Parallel()
			o := local.Options{Members: 3, Args: []string{"--unsafe-no-fsync"}}
			if secure {
				o.TLS = servertest.NewCerts(t).MutualTLS()
			}
			c := servertest.Start(t, servertest.Options{Options: o})
			ctx := servertest.Context(t, 2*time.Minute)
			behind := (c.Leader(t) + 1) % 3
			c.WaitSettled(t) // so that its database has the members, which are in the log first
			c.Kill(behind)
			db := content(t, c.DBPath(behind))
			if _, err := c.Client(t, c.Endpoint((behind+1)%3)).Put(ctx, "written", "without it"); err != nil {
				t.Fatal(err)
			}
			if err := c.Launch(behind, "--force-new-cluster"); err != nil {
				t.Fatal(err)
			}
			wantEnd(t, c, behind, 5, "--force-new-cluster", c.Name((behind+1)%3)+" (", c.PeerURL((behind+2)%3))
			if content(t, c.DBPath(behind)) != db {
				t.Error("its database was changed")
			}
			for i := range 3 {
				if i == behind {
					continue
				}
				if !c.Running(i) {
					t.Errorf("member %d has ended", i)
				}
				if err := c.StopMember(ctx, i); err != nil {
					t.Fatal(err)
				}
				c.Forget(i)
			}
			if err := c.StartMember(ctx, behind, "--force-new-cluster"); err != nil {
				t.Fatal(err)
			}
			list, err := c.Client(t, c.Endpoint(behind)).MemberList(ctx)
			if err != nil || len(list.Members) != 1 {
				t.Errorf("%v, %v", list, err)
			}
		})
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
