package diagnose_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/servertest"
)

// signedBy makes a pair of keys, and --auth-token for it.
func signedBy(t *testing.T, name string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(t.TempDir(), name)
	for path, b := range map[string]*pem.Block{base + ".pub": {Type: "PUBLIC KEY", Bytes: der}, base + ".key": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "--auth-token=jwt,sign-method=RS256,pub-key=" + base + ".pub,priv-key=" + base + ".key"
}

// usersOf starts three members, each with its --auth-token, and gives them users.
func usersOf(t *testing.T, tokens ...string) *servertest.Cluster {
	t.Helper()
	c := shape{members: len(tokens), each: func(i int) []string { return []string{tokens[i]} }}.start(t)
	c.EnableAuth(t, servertest.User{Name: "app", Password: "p", Prefix: "/app/"})
	return c
}

// One member of three has another pair of keys: whoever logged in there is refused by the
// others. With the others' pair it is well, for root and for whoever may read little.
func TestCaseTokenKeys(t *testing.T) {
	t.Parallel()
	one, other := signedBy(t, "one"), signedBy(t, "other")
	c := usersOf(t, one, one, other)
	asApp := connectAs(t, c, "app", "p")
	var r diagnose.Report
	for _, client := range []func() diagnose.Report{func() diagnose.Report { return look(t, asApp) }, func() diagnose.Report { return look(t, connect(t, c)) }} {
		r = client()
		f := finding(t, r, "KVD-AUTH-002")
		if f.Subject != c.Name(2) || f.Severity != diagnose.Critical || !strings.Contains(f.Summary, "different keys") || len(f.Evidence) != 3 || len(f.Remedy) != 2 {
			t.Errorf("%+v", f)
		}
		belongs(t, r, "KVD-AUTH-002 critical")
	}
	if err := c.StopMember(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := c.StartMember(t.Context(), 2, one); err != nil {
		t.Fatal(err)
	}
	good := look(t, connect(t, c))
	if !slices.ContainsFunc(good.Checks, func(x diagnose.Result) bool {
		return x.Check == "tokens" && x.Findings == 0 && strings.Contains(x.Measured, "RS256 of 3 members")
	}) {
		t.Errorf("not looked at: %+v", good.Checks)
	}
	remedied(t, "KVD-AUTH-002", r, good, "copy the key files of "+c.Name(0)+" over those of "+c.Name(2), "restart "+c.Name(2))
}

// What tokens differ by is told apart: by how they are made, by a clock or their ttl. Where
// all make simple ones, which go through the log, there is nothing to tell, nor where
// nobody logs in.
func TestCaseTokenKinds_more(t *testing.T) {
	t.Parallel()
	one := signedBy(t, "one")
	for _, p := range []struct {
		name   string
		tokens []string
		want   []string
		says   string
	}{
		{"simple beside signed ones", []string{one, "--auth-token=simple", one}, []string{"KVD-AUTH-002 critical"}, "simple tokens and tokens signed by RS256"},
		{"two and two", []string{one, one, "--auth-token=simple", "--auth-token=simple", "--auth-token=simple"}, []string{"KVD-AUTH-002 critical"}, "m1 and m2"},
		{"old as soon as they are made", []string{one, one + ",ttl=-6m", one}, []string{"KVD-AUTH-002 critical"}, "a clock is behind"},
		{"all simple", []string{"--auth-token=simple", "--auth-token=simple", "--auth-token=simple"}, nil, ""},
	} {
		t.Run(p.name, func(t *testing.T) {
			c := usersOf(t, p.tokens...)
			r := look(t, connect(t, c))
			belongs(t, r, p.want...)
			for _, f := range r.Findings {
				if !strings.Contains(f.Summary, p.says) {
					t.Errorf("%q, want %q", f.Summary, p.says)
				}
			}
		})
	}
}
