package diagnose_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// silentPort accepts connections and never answers.
func silentPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	servertest.Accept(t, l, func(conn net.Conn) { t.Cleanup(func() { _ = conn.Close() }) })
	return "http://" + l.Addr().String()
}

// closedPort is one that nobody listens at.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it is to be closed
	return l.Addr().String()
}

// notEtcd is some other HTTP server.
func notEtcd(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "It works!") }))
	t.Cleanup(s.Close)
	return s.URL
}

// other is a cluster of one with a certificate of its own.
func other(t *testing.T, certs *servertest.Certs, p servertest.Pair) string {
	t.Helper()
	return servertest.Start(t, servertest.Options{Options: local.Options{TLS: &local.TLS{CA: certs.CA, Cert: p.Cert, Key: p.Key}}}).Endpoint(0)
}

// causesOf are the causes that the findings name, which are all of endpoints that do
// not answer.
func causesOf(t *testing.T, r diagnose.Report) []string {
	t.Helper()
	out := []string{}
	for _, f := range r.Findings {
		if f.ID != "KVD-NET-001" || f.Severity != diagnose.Warning {
			t.Errorf("unexpected %s: %s", f.ID, f.Summary)
			continue
		}
		wellFormed(t, f)
		if strings.Contains(f.Summary, "context deadline exceeded") || strings.Contains(f.Summary, "rpc error") {
			t.Errorf("not for people: %s", f.Summary)
		}
		out = append(out, evidence(t, f, "cause").Text)
	}
	slices.Sort(out)
	return out
}

// Case C80: each endpoint that does not answer has its own cause, and those that do
// are not lost: one finding for each endpoint, with the cause, and none else.
func TestCaseEndpoints(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name  string
		shape shape
		bad   func(t *testing.T, c *servertest.Cluster) map[string]string // endpoint: cause
		slow  bool
	}{
		{name: "of a cluster without TLS", shape: shape{members: 1}, bad: func(t *testing.T, c *servertest.Cluster) map[string]string {
			t.Helper()
			return map[string]string{"http://" + closedPort(t): cluster.CauseConnectionRefused, strings.Replace(c.Endpoint(0), "http", "https", 1): cluster.CauseTLSNotSupported,
				c.PeerURL(0): cluster.CausePeerPort, c.MetricsURL(0): cluster.CauseMetricsPort, notEtcd(t): cluster.CauseNotEtcd, silentPort(t): cluster.CauseNoAnswer,
				"http://no-such-host.invalid:2379": cluster.CauseDNSFailure}
		}},
		{name: "of three with users", shape: shape{members: 3, auth: true}, bad: func(t *testing.T, c *servertest.Cluster) map[string]string {
			t.Helper()
			return map[string]string{"http://" + closedPort(t): cluster.CauseConnectionRefused, c.PeerURL(1): cluster.CausePeerPort, notEtcd(t): cluster.CauseNotEtcd}
		}, slow: true},
		{name: "of a cluster with certificates", shape: shape{members: 1, mtls: true}, bad: func(t *testing.T, c *servertest.Cluster) map[string]string {
			t.Helper()
			certs := servertest.NewCerts(t)
			return map[string]string{"https://" + closedPort(t): cluster.CauseConnectionRefused, strings.Replace(c.Endpoint(0), "https", "http", 1): cluster.CauseTLSRequired,
				c.PeerURL(0): cluster.CausePeerPort, other(t, certs, certs.Server): cluster.CauseUnknownCA}
		}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c := p.shape.start(t)
			bad := p.bad(t, c)
			endpoints, want := c.Endpoints(), []string{}
			for e, cause := range bad {
				endpoints, want = append(endpoints, e), append(want, cause)
			}
			slices.Sort(want)
			if causes := causesOf(t, look(t, connect(t, c, endpoints...))); !slices.Equal(causes, want) {
				t.Errorf("causes %q, want %q", causes, want)
			}
		})
	}
}

// Case C80: certificates that are bad, each of another server, beside a good one.
func TestCaseServerCertificates(t *testing.T) {
	besideOthers(t, true)
	certs := servertest.NewCerts(t)
	endpoints := []string{other(t, certs, certs.Server)}
	want := []string{}
	for _, p := range []struct {
		pair  servertest.Pair
		cause string
	}{{certs.ExpiredServer, cluster.CauseCertExpired}, {certs.NoSANServer, cluster.CauseNameMismatch}, {certs.WrongServer, cluster.CauseNameMismatch}, {certs.OtherServer, cluster.CauseUnknownCA}} {
		endpoints, want = append(endpoints, other(t, certs, p.pair)), append(want, p.cause)
	}
	slices.Sort(want)
	client, err := cluster.Connect(cluster.Config{Endpoints: endpoints, CACert: certs.CA})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // nothing was written
	if causes := causesOf(t, look(t, client)); !slices.Equal(causes, want) {
		t.Errorf("causes %q, want %q", causes, want)
	}
}

// A member whose CA was made anew on its host is let in by none of its peers, and waits for
// them. Its certificates are in their dates, and the CA has the old one's name.
func TestCaseCAMadeAnew(t *testing.T) {
	besideOthers(t, true)
	certs := servertest.NewCerts(t)
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, TLS: certs.MutualTLS()}})
	who := (c.Leader(t) + 1) % 3
	if err := c.StopMember(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	if err := c.Launch(who, "--peer-cert-file="+certs.TwinServer.Cert, "--peer-key-file="+certs.TwinServer.Key, "--peer-trusted-ca-file="+certs.TwinCA); err != nil {
		t.Fatal(err)
	}
	other := c.Endpoint((who + 1) % 3)
	client, err := cluster.Connect(cluster.Config{Endpoints: []string{other}, CACert: certs.CA, Cert: certs.Client.Cert, Key: certs.Client.Key})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // nothing was written
	starting := func(r diagnose.Report) (diagnose.Finding, bool) {
		i := slices.IndexFunc(r.Findings, func(f diagnose.Finding) bool { return f.ID == "KVD-NET-001" && f.Subject == c.Name(who) })
		return r.Findings[max(i, 0)], i >= 0 && evidence(t, r.Findings[i], "cause").Text == cluster.CauseStarting
	}
	var f diagnose.Finding
	for is := false; !is; { // until its ports are open
		in, err := diagnose.Collect(servertest.Context(t, time.Minute), client, options(), discard)
		if err != nil {
			t.Fatal(err)
		}
		if r := diagnose.Diagnose(in); len(r.Findings) > 0 {
			f, is = starting(r)
		}
	}
	if !strings.Contains(f.Summary, "certificates of another CA") || !strings.Contains(f.Remedy[0], "the CA that the others have") {
		t.Errorf("%s: %q", f.Summary, f.Remedy)
	}
	if e := evidence(t, f, "its certificate for peers"); strings.Count(e.Text, `issued by "CN=ca`) != 1 || strings.Count(e.Text, "with key ") != 2 {
		t.Errorf("evidence %q", e.Text)
	}
}

// Case C80: a member that wants something of us is there. With nobody else to ask it
// is an error with the cause; one whose user may only read some keys looks as far as
// that, and it is no finding.
func TestCaseWhoWeAre(t *testing.T) {
	besideOthers(t, true)
	certs := servertest.NewCerts(t)
	c := servertest.Start(t, servertest.Options{Options: local.Options{TLS: certs.MutualTLS()}})
	mine := cluster.Config{Endpoints: c.Endpoints(), CACert: certs.CA, Cert: certs.Client.Cert, Key: certs.Client.Key}
	users := begin(t, 1, 0)
	users.EnableAuth(t, servertest.User{Name: "app", Password: "p", Prefix: "/app/"})
	theirs := cluster.Config{Endpoints: users.Endpoints(), User: "app", Password: "p"}
	with := func(cfg cluster.Config, change func(*cluster.Config)) cluster.Config { change(&cfg); return cfg }
	for _, p := range []struct {
		name  string
		cfg   cluster.Config
		cause string // empty: it is looked at
	}{
		{"no certificate", with(mine, func(c *cluster.Config) { c.Cert, c.Key = "", "" }), cluster.CauseClientCertRequired},
		{"another CA's certificate", with(mine, func(c *cluster.Config) { c.Cert, c.Key = certs.OtherClient.Cert, certs.OtherClient.Key }), cluster.CauseClientCertRejected},
		{"an expired one", with(mine, func(c *cluster.Config) { c.Cert, c.Key = certs.ExpiredClient.Cert, certs.ExpiredClient.Key }), cluster.CauseCertExpired},
		{"the right one", mine, ""},
		{"no user", with(theirs, func(c *cluster.Config) { c.User, c.Password = "", "" }), cluster.CauseAuthRequired},
		{"a wrong password", with(theirs, func(c *cluster.Config) { c.Password = "q" }), cluster.CauseAuthFailed},
		{"a user with some keys", theirs, ""},
		{"root", with(theirs, func(c *cluster.Config) { c.User, c.Password = users.Account() }), ""},
	} {
		t.Run(p.name, func(t *testing.T) {
			client, err := cluster.Connect(p.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close() //nolint:errcheck // nothing was written
			if p.cause == "" {
				r := look(t, client)
				belongs(t, r)
				denied := slices.ContainsFunc(r.NotLooked, func(n diagnose.NotLooked) bool { return n.Denied })
				if denied != (p.cfg.User == "app") {
					t.Errorf("not looked at: %+v", r.NotLooked)
				}
				return
			}
			in, err := diagnose.Collect(t.Context(), client, options(), discard)
			if err == nil { // it is there, which is told as such
				r := diagnose.Diagnose(in)
				belongs(t, r)
				if !slices.ContainsFunc(r.NotLooked, func(n diagnose.NotLooked) bool { return n.Denied && n.Cause == p.cause }) {
					t.Errorf("not looked at: %+v", r.NotLooked)
				}
				return
			}
			if fault.CauseOf(err) != p.cause || fault.HintOf(err) == "" {
				t.Errorf("%v: %s, want %s", err, fault.CauseOf(err), p.cause)
			}
		})
	}
}

// Where nobody answers it is an error, with the cause.
func TestCaseNobodyAnswers(t *testing.T) {
	t.Parallel()
	c := notStarted(t, 1)
	_, err := diagnose.Collect(t.Context(), connect(t, c, "http://127.0.0.1:1"), options(), discard)
	if fault.CauseOf(err) != cluster.CauseConnectionRefused {
		t.Errorf("nobody answers: %v", err)
	}
}
