package cluster_test

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// watching begins a watch of /a/ from a revision on, and returns what waits for its
// next event, whose revision that returns.
type watching func(ctx context.Context, from int64) func() (int64, error)

// watchings are the ways in which kvd watches.
func watchings(t *testing.T, c *cluster.Client, endpoint string) map[string]watching {
	t.Helper()
	m, err := c.Member(view(t, c).Members[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	api, err := c.DialLikeAPIServer(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() }) //nolint:errcheck // only read
	etcds := func(client *clientv3.Client) watching {
		return func(ctx context.Context, from int64) func() (int64, error) {
			ch := client.Watch(ctx, "/a/", clientv3.WithPrefix(), clientv3.WithRev(from))
			return func() (int64, error) {
				resp, ok := <-ch
				if resp.Err() != nil {
					return 0, m.Explain(ctx, "watch", resp.Err())
				} else if !ok {
					return 0, errors.New("the watch has ended")
				}
				return resp.Header.Revision, nil
			}
		}
	}
	return map[string]watching{
		"message by message": func(ctx context.Context, from int64) func() (int64, error) {
			w, err := m.Watch(ctx, &pb.WatchCreateRequest{Key: []byte("/a/"), RangeEnd: []byte("/a0"), StartRevision: from})
			if err != nil {
				t.Fatal(err)
			}
			return func() (int64, error) {
				for {
					resp, err := w.Recv()
					if err != nil || len(resp.Events) > 0 {
						return resp.GetHeader().GetRevision(), err
					}
				}
			}
		},
		"by etcd's client":   etcds(m.Etcd()),
		"like an API server": etcds(api),
	}
}

// TestWatchLogsIn: a watch gets in where authentication was turned on since the client
// came, where its token has expired, and, where it stood, after its member has
// forgotten all tokens; and where it does not, it says why.
func TestWatchLogsIn(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--auth-token-ttl=1"}}})
	came := func(user, password string) *cluster.Client {
		cfg := ep(s.Endpoints()...)
		cfg.User, cfg.Password = user, password
		return connect(t, cfg)
	}
	nobody := watchings(t, came("", ""), s.Endpoint(0))
	mistyped := watchings(t, came("app", "mistyped"), s.Endpoint(0))
	other := watchings(t, came("other", "pw"), s.Endpoint(0))
	root := map[string]watching{}
	for way := range nobody { // each with a client of its own, or one's login would do for all
		root[way] = watchings(t, came("root", servertest.RootPassword), s.Endpoint(0))[way]
	}
	s.EnableAuth(t, servertest.User{Name: "app", Password: "pw", Prefix: "/a/"}, servertest.User{Name: "other", Password: "pw", Prefix: "/o/"})
	put := func() int64 {
		t.Helper()
		r, err := s.Client(t).Put(servertest.Context(t, 30*time.Second), "/a/k", "v")
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Revision
	}
	watch := func(way, when string, from int64) (sees func(int64)) {
		next := root[way](servertest.Context(t, 60*time.Second), from)
		return func(want int64) {
			t.Helper()
			if got, err := next(); got != want || err != nil {
				t.Errorf("%s, %s: revision %d, %v, want %d", way, when, got, err, want)
			}
		}
	}
	first := put()
	for way := range root {
		watch(way, "turned on since", first)(first)
	}
	<-time.After(2500 * time.Millisecond) // expired, and the member has noticed: it looks once a second
	standing := map[string]func(int64){}
	for way := range root {
		standing[way] = watch(way, "token expired", first)
		standing[way](first)
	}
	for cause, all := range map[string]map[string]watching{cluster.CauseAuthRequired: nobody, cluster.CauseAuthFailed: mistyped, cluster.CausePermissionDenied: other} {
		for way, begin := range all {
			if _, err := begin(servertest.Context(t, 30*time.Second), first)(); fault.CauseOf(err) != cause || fault.KindOf(err) != fault.Denied {
				t.Errorf("%s: %v, cause %q, want %s", way, err, fault.CauseOf(err), cause)
			}
		}
	}
	s.Kill(0)
	if err := s.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	delete(standing, "message by message") // ends with its connection, and says so
	second := put()
	for _, sees := range standing {
		sees(second)
	}
}
