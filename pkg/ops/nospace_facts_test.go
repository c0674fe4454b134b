package ops_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// Case C08: what works while NOSPACE is raised, and what does not. kvd's plans
// and words rest on it.
func TestWhatWorksUnderNospace(t *testing.T)      { whatWorksUnderNospace(t, plain()) }
func TestWhatWorksUnderNospace_more(t *testing.T) { whatWorksUnderNospace(t, otherWorlds()) }

func whatWorksUnderNospace(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			before, err := p.Client.Grant(t.Context(), 600)
			if err != nil {
				t.Fatal(err)
			}
			p.fill(t, 1<<30, 64<<10)
			ctx, c, k := servertest.Context(t, time.Minute), p.Client, p.key(0)
			never := clientv3.Compare(clientv3.Version("absent"), "=", 99)
			put := clientv3.OpPut("x", "y")
			txn := func(cmp []clientv3.Cmp, then, otherwise []clientv3.Op) error {
				_, err := c.Txn(ctx).If(cmp...).Then(then...).Else(otherwise...).Commit()
				return err
			}
			ops := func(o ...clientv3.Op) []clientv3.Op { return o }
			for _, tc := range []struct {
				what string
				err  error
				want error
			}{
				{"put", p.tryPut(ctx, 1), rpctypes.ErrNoSpace},
				{"lease grant", second(c.Grant(ctx, 10)), rpctypes.ErrNoSpace},
				{"delete with a put", txn(nil, ops(clientv3.OpDelete(k), put), nil), rpctypes.ErrNoSpace},
				{"a put in the branch that is not taken", txn([]clientv3.Cmp{never}, ops(put), ops(clientv3.OpGet(k))), rpctypes.ErrNoSpace},
				{"a nested put", txn(nil, ops(clientv3.OpTxn(nil, ops(put), nil)), nil), rpctypes.ErrNoSpace},
				{"delete", second(c.Delete(ctx, k)), nil},
				{"kube-apiserver's delete", txn([]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(p.key(1)), ">", 0)},
					ops(clientv3.OpDelete(p.key(1))), ops(clientv3.OpGet(p.key(1)))), nil},
				{"read", second(c.Get(ctx, p.key(2))), nil},
				{"compaction", second(c.Compact(ctx, 5)), nil},
				{"keepalive", second(c.KeepAliveOnce(ctx, before.ID)), nil},
				{"lease revoke", second(c.Revoke(ctx, before.ID)), nil},
				{"defrag", second(c.Defragment(ctx, p.Endpoint(0))), nil},
				{"user add", second(c.UserAdd(ctx, "somebody", "pw")), nil},
			} {
				if !errors.Is(tc.err, tc.want) {
					t.Errorf("%s: %v, want %v", tc.what, tc.err, tc.want)
				}
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// Case C11: what probes see under NOSPACE; a member whose /health is false is
// not down.
func TestProbesUnderNospace(t *testing.T) {
	probesUnderNospace(t, world{members: 1, quota: 16 * mib, keyFmt: "k%d"})
}

func TestProbesUnderNospace_more(t *testing.T) {
	probesUnderNospace(t, world{members: 1, quota: 24 * mib, keyFmt: "\xff%d"}, world{members: 3, quota: 16 * mib, keyFmt: "/registry/%d"})
}

func probesUnderNospace(t *testing.T, in ...world) {
	t.Parallel()
	for _, w := range in {
		p := w.build(t)
		p.fill(t, 1<<30, 64<<10)
		for path, want := range map[string]int{
			"/health": 503, "/health?exclude=NOSPACE": 200, "/health?serializable=true": 503, "/livez": 200, "/readyz": 200,
		} {
			for i := range p.Len() {
				r, err := http.Get(p.Endpoint(i) + path)
				if err != nil {
					t.Fatal(err)
				}
				_ = r.Body.Close()
				if r.StatusCode != want {
					t.Errorf("%s of %s: %d, want %d", path, p.Name(i), r.StatusCode, want)
				}
			}
		}
		v := p.view(t)
		if n := len(v.Answered()); n != w.members {
			t.Errorf("%d of %d members are taken to answer", n, w.members)
		}
		o := ops.DefaultQuotaOptions()
		o.Content = false
		r, err := ops.Quota(t.Context(), p.KVD, v, o, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		said := map[string]string{}
		for _, f := range r.Findings {
			said[f.Cause] = f.Message + f.Hint
		}
		if !strings.Contains(said[ops.FindNoSpaceProbe], "/livez") || !strings.Contains(said[ops.FindNoSpaceRules], "deletes") {
			t.Errorf("findings %v: want what works, and which probe", said)
		}
	}
}
