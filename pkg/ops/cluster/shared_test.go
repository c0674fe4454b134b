package cluster_test

import (
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// An endpoint before members of two clusters is told as such, whoever answers first; what
// is to change something is refused. Before members of one cluster it is as good as any.
func TestEndpointOfTwoClusters(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	a, b := servertest.Start(t, servertest.Options{}), servertest.Start(t, servertest.Options{})
	sa, sb := servertest.Start(t, servertest.Options{Options: local.Options{TLS: certs.MutualTLS()}}), servertest.Start(t, servertest.Options{Options: local.Options{TLS: certs.MutualTLS()}})
	three := three(t, local.Options{})
	secure := func(url string) cluster.Config { return with(ep(url), certs.CA, certs.Client) }
	for name, p := range map[string]struct {
		behind []string
		cfg    func(url string) cluster.Config
		own    bool // all of one cluster
	}{
		"two clusters":            {behind: []string{a.Endpoint(0), b.Endpoint(0)}, cfg: ep1},
		"one of four is foreign":  {behind: []string{three.Endpoint(0), three.Endpoint(1), three.Endpoint(2), b.Endpoint(0)}, cfg: ep1},
		"with certificates":       {behind: []string{sa.Endpoint(0), sb.Endpoint(0)}, cfg: secure},
		"beside a member of one":  {behind: []string{b.Endpoint(0), a.Endpoint(0)}, cfg: func(url string) cluster.Config { return cluster.Config{Endpoints: []string{a.Endpoint(0), url}} }},
		"three of one cluster":    {behind: three.Endpoints(), cfg: ep1, own: true},
		"a forward to one member": {behind: []string{a.Endpoint(0)}, cfg: ep1, own: true},
	} {
		t.Run(name, func(t *testing.T) {
			url, count := servertest.Balancer(t, p.behind...)
			c := connect(t, p.cfg(url))
			v, err := c.VotersView(t.Context())
			if p.own {
				if err != nil || len(v.Strangers) != 0 || len(v.Endpoints) != 1 {
					t.Fatalf("%v, strangers %+v of %v", err, v.Strangers, v.Endpoints)
				}
			} else {
				if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != cluster.CauseOtherCluster || fault.HintOf(err) == "" {
					t.Fatalf("not refused: %v", err)
				}
				if len(v.Strangers) != 1 || v.Strangers[0].Endpoint != url || v.Strangers[0].ClusterID == v.ID || v.Strangers[0].MemberID == 0 || !v.Strangers[0].Shared {
					t.Errorf("strangers %+v", v.Strangers)
				}
				for _, want := range []string{url, cluster.FormatID(v.ID), cluster.FormatID(v.Strangers[0].ClusterID)} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q lacks %s", err, want)
					}
				}
			}
			was := count.Load()
			again := int64(3) // what was bad is looked at once more, what was good is not
			if p.own {
				again = 0
			}
			if _, _ = c.VotersView(t.Context()); count.Load() != was+again || was > 4 {
				t.Errorf("%d connections, and %d with the next look", was, count.Load())
			}
		})
	}
}

func ep1(url string) cluster.Config { return ep(url) }

// Where each cluster has users of its own, the token of one is unknown to the other, and
// what a login there gives is not taken for this one's.
func TestEndpointOfTwoClustersWithUsers_more(t *testing.T) {
	t.Parallel()
	a, b := servertest.Start(t, servertest.Options{}), servertest.Start(t, servertest.Options{})
	a.EnableAuth(t)
	b.EnableAuth(t)
	url, _ := servertest.Balancer(t, a.Endpoint(0), b.Endpoint(0))
	cfg := ep(url)
	cfg.User, cfg.Password = a.Account()
	c := connect(t, cfg)
	for range 2 {
		v := view(t, c)
		if len(v.Strangers) != 1 || !v.Strangers[0].Shared || v.Strangers[0].ClusterID == v.ID || len(v.Answered()) != 1 {
			t.Errorf("strangers %+v, members %s", v.Strangers, names(v))
		}
	}
}

// Where the other cluster has another CA, or other passwords, nobody tells its ID; that it
// is not one cluster's is seen by whom it refuses.
func TestEndpointThatRefusesSome(t *testing.T) {
	t.Parallel()
	mine, theirs := servertest.NewCerts(t), servertest.NewCerts(t)
	sa, sb := servertest.Start(t, servertest.Options{Options: local.Options{TLS: mine.MutualTLS()}}), servertest.Start(t, servertest.Options{Options: local.Options{TLS: theirs.MutualTLS()}})
	users, others := servertest.Start(t, servertest.Options{}), servertest.Start(t, servertest.Options{})
	users.EnableAuth(t, servertest.User{Name: "app", Password: "p", Prefix: "/app/"})
	others.EnableAuth(t, servertest.User{Name: "app", Password: "q", Prefix: "/app/"})
	as := func(url string) cluster.Config {
		return cluster.Config{Endpoints: []string{url}, User: "app", Password: "p"}
	}
	for name, p := range map[string]struct {
		behind []string
		cfg    func(url string) cluster.Config
		says   string
	}{
		"another CA":          {[]string{sa.Endpoint(0), sb.Endpoint(0)}, func(url string) cluster.Config { return with(ep(url), mine.CA, mine.Client) }, "signed by unknown authority"},
		"another password":    {[]string{users.Endpoint(0), others.Endpoint(0)}, as, "password is wrong there"},
		"one and the same CA": {[]string{sa.Endpoint(0), sa.Endpoint(0)}, func(url string) cluster.Config { return with(ep(url), mine.CA, mine.Client) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := servertest.Balancer(t, p.behind...)
			v, err := connect(t, p.cfg(url)).View(t.Context())
			if err != nil || len(v.Answered()) != 1 {
				t.Fatalf("%v: %s", err, names(v))
			}
			if p.says == "" {
				if len(v.Unreached) != 0 {
					t.Errorf("%+v", v.Unreached)
				}
				return
			}
			if len(v.Unreached) != 1 || fault.CauseOf(v.Unreached[0].Err) != cluster.CauseNotEachTime || !strings.Contains(v.Unreached[0].Err.Error(), p.says) {
				t.Errorf("%+v, want %q", v.Unreached, p.says)
			}
		})
	}
}

// A cluster that another takes the place of, as after a restore, is remembered by nobody: the
// endpoint leads into the new one alone.
func TestEndpointOfClusterThatWasReplaced(t *testing.T) {
	t.Parallel()
	a, b := servertest.Start(t, servertest.Options{}), servertest.Start(t, servertest.Options{})
	before, after := a.Endpoint(0), b.Endpoint(0)
	url, _ := servertest.Balancer(t, before, before, before, before, after, after, after, after, after, after, after, after)
	c := connect(t, ep(url))
	old := view(t, c)
	if err := a.StopMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if v := view(t, c); v.ID == old.ID || len(v.Strangers) != 0 || len(v.Answered()) != 1 {
		t.Errorf("%s of %x, strangers %+v", names(v), v.ID, v.Strangers)
	}
}

// An address that a member alone advertises, and where it answers, is asked by one
// connection.
func TestMembersOwnEndpointIsAskedOnce(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{})
	url, count := servertest.Balancer(t, s.Endpoint(0))
	if err := s.StopMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.StartMember(t.Context(), 0, "--advertise-client-urls="+url); err != nil {
		t.Fatal(err)
	}
	was := count.Load()
	if v := view(t, connect(t, ep(url))); len(v.Answered()) != 1 || len(v.Strangers) != 0 || count.Load() != was+1 {
		t.Errorf("%s, strangers %+v, %d connections", names(v), v.Strangers, count.Load()-was)
	}
}

// Endpoints of two clusters that are given beside each other are told apart, by which is
// which, and nothing is changed; that a member of another cluster answers in a member's
// place, which `kvd member replace` mends, does not keep it from being mended.
func TestEndpointsOfTwoClusters(t *testing.T) {
	t.Parallel()
	a, b := servertest.Start(t, servertest.Options{}), servertest.Start(t, servertest.Options{})
	v, err := connect(t, cluster.Config{Endpoints: []string{a.Endpoint(0), b.Endpoint(0)}}).VotersView(t.Context())
	want := cluster.FormatID(v.ID) + " (" + a.Endpoint(0) + "), "
	if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != cluster.CauseOtherCluster || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), " ("+b.Endpoint(0)+")") {
		t.Errorf("%v, want it to have %q", err, want)
	}
	v.Strangers[0].Endpoint = v.Members[0].ClientURLs[0]
	if err := v.OneCluster(""); err != nil {
		t.Errorf("in a member's place: %v", err)
	}
}
