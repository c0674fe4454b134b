//go:build long

package ops_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/servertest"
)

// The last way out of docs/runbooks/member.md: of three members one data dir is
// left; it makes a cluster of its own with all that it had, and gets the others
// anew, one at a time.
func TestForceNewClusterAndAddTheOthers(t *testing.T) {
	for name, w := range map[string]world{
		"plain":         {members: 3},
		"mTLS and auth": {members: 3, secure: true},
	} {
		t.Run(name, func(t *testing.T) {
			w.quota, w.keyFmt = mebi64, "k%d"
			p := w.build(t)
			ctx := servertest.Context(t, 2*time.Minute)
			p.put(t, 200, 100, 1<<10)
			leader := p.Leader(t) // has all that was acknowledged
			before := p.view(t)
			for i := range 3 {
				p.Kill(i)
			}
			for i := range 3 {
				if i != leader {
					p.Forget(i)
				}
			}
			if err := p.StartMember(ctx, leader, "--force-new-cluster"); err != nil {
				t.Fatal(err)
			}
			if err := p.Restart(ctx, leader); err != nil {
				t.Fatal(err)
			}
			p.Client, p.KVD = p.Cluster.Client(t), p.connect(t)
			alone := p.view(t)
			if len(alone.Members) != 1 || alone.ID != before.ID {
				t.Fatalf("%+v", alone.Members)
			}
			d := newDance(t, p)
			for range 2 {
				to, err := d.Reserve()
				if err != nil {
					t.Fatal(err)
				}
				d.aim(to)
				code, out, said := d.run(t, "member", "add", d.Name(to), "--peer-urls", d.PeerURL(to), "--client-urls", d.Endpoint(to),
					"--yes", "--start", d.script, "--timeout", "1m")
				if code != 0 {
					t.Fatalf("exit %d\n%s\n%s", code, out, said)
				}
			}
			if v := d.view(t); len(v.Voters()) != 3 || v.FailuresTolerated() != 1 {
				t.Errorf("%+v", v.Members)
			}
			got, err := p.Client.Get(ctx, "k", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil || got.Count != 100 {
				t.Errorf("%v keys, want 100 (%v)", got, err)
			}
		})
	}
}
