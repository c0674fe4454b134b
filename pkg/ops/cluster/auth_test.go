package cluster_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A client certificate whose common name is a user's logs in by itself, and so
// does without the quorum that a password needs.
func TestAuthWithoutQuorum(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	s := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, TLS: certs.MutualTLS()}})
	s.EnableAuth(t)
	nobody := with(ep(s.Endpoints()...), certs.CA, certs.ClientFor("nobody"))
	root := with(ep(s.Endpoints()...), certs.CA, certs.Client)
	password := nobody
	password.User, password.Password = "root", servertest.RootPassword
	for name, cfg := range map[string]cluster.Config{"certificate": root, "password": password} {
		if v := view(t, connect(t, cfg)); v.Err() != nil || len(v.Members) != 3 {
			t.Errorf("%s: %v", name, v.Err())
		}
	}
	s.Kill(1)
	s.Kill(2)
	v := view(t, connect(t, root))
	if got := names(v); got != "m1 m2:connection_refused m3:connection_refused" {
		t.Errorf("certificate without quorum: %q", got)
	}
	begun := time.Now()
	_, err := connect(t, password).View(t.Context())
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("password without quorum: took %v", took)
	}
	lines := flat(err)
	if len(lines) != 3 || fault.CauseOf(lines[1]) != cluster.CauseConnectionRefused || !strings.Contains(lines[0].Error(), "logging in as root takes a majority") {
		t.Errorf("password without quorum: %v", err)
	}
}

// A token that the member does not know any more is renewed, also for requests
// that are made through etcd's own client.
func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--auth-token-ttl=1"}}})
	s.EnableAuth(t)
	cfg := ep(s.Endpoints()...)
	cfg.User, cfg.Password = "root", servertest.RootPassword
	c := connect(t, cfg)
	m, err := c.Member(view(t, c).Members[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := m.Etcd().Get(t.Context(), "k"); err != nil {
			t.Errorf("through etcd's client: %v", err)
		}
		if _, err := m.Status(t.Context()); err != nil {
			t.Errorf("status: %v", err)
		}
		<-time.After(2500 * time.Millisecond) // expired, and the member has noticed: it looks once a second
	}
	stream, err := m.Snapshot(t.Context())
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	for err == nil {
		_, err = stream.Next()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("snapshot: %v", err)
	}
	<-time.After(2500 * time.Millisecond)
	if _, err := m.Etcd().TimeToLive(t.Context(), 1); err != nil {
		t.Errorf("lease: %v", err)
	}
}

// Where authentication is off a user is no reason to ask for a token with each
// request: that takes a read through the quorum (EtcdServer.Authenticate), and the
// answer is the same each time. Once it is on, requests get in all the same.
func TestAuthTurnedOnLater(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3}})
	cfg := ep(s.Endpoints()...)
	cfg.User, cfg.Password = "root", servertest.RootPassword
	c := connect(t, cfg)
	v := view(t, c)
	for range 3 {
		if v = view(t, c); v.Err() != nil {
			t.Fatal(v.Err())
		}
	}
	m, err := c.Member(v.Members[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Get(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	asked := 0.0
	for _, e := range s.Endpoints() {
		sample, err := metrics.Fetch(t.Context(), http.DefaultClient, e)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := sample.Value(metrics.RPCStarted, metrics.Labels{"grpc_method": "Authenticate"})
		asked += n
	}
	if asked != 1 {
		t.Errorf("a token was asked for %v times, want once", asked)
	}
	s.EnableAuth(t)
	if _, err := m.Get(t.Context(), "k"); err != nil {
		t.Errorf("after authentication was turned on: %v", err)
	}
	if v := view(t, c); v.Err() != nil {
		t.Errorf("after authentication was turned on: %v", v.Err())
	}
}
