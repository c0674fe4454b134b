package servertest_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A cluster with and without mutual TLS and authentication is ready when Start
// returns: every member knows the names of all.
func TestStart(t *testing.T) {
	for _, tc := range []struct {
		name    string
		members int
		tls     bool
		auth    bool
	}{
		{"one member", 1, false, false},
		{"three members", 3, false, false},
		{"three members, mutual TLS, auth", 3, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := servertest.Options{Options: local.Options{Members: tc.members}, EqualContent: true}
			if tc.tls {
				o.TLS = servertest.NewCerts(t).MutualTLS()
			}
			begin := time.Now()
			c := servertest.Start(t, o)
			t.Logf("ready after %s", time.Since(begin))
			if tc.auth {
				c.EnableAuth(t, servertest.User{Name: "app", Password: "secret", Prefix: "/app/"})
				app := c.ClientAs(t, "app", "secret")
				if _, err := app.Put(t.Context(), "/app/x", "1"); err != nil {
					t.Errorf("user app under its prefix: %v", err)
				}
				if _, err := app.Put(t.Context(), "/other", "1"); err == nil {
					t.Error("user app outside its prefix: no error")
				}
			}
			for i := range c.Len() {
				cli := c.Client(t, c.Endpoint(i))
				resp, err := cli.MemberList(t.Context(), clientv3.WithSerializable())
				if err != nil {
					t.Fatal(err)
				}
				if len(resp.Members) != tc.members {
					t.Errorf("%s knows %d members, want %d", c.Name(i), len(resp.Members), tc.members)
				}
				for _, m := range resp.Members {
					if m.Name == "" || len(m.ClientURLs) != 1 {
						t.Errorf("%s knows %x only as %q %v", c.Name(i), m.ID, m.Name, m.ClientURLs)
					}
				}
			}
		})
	}
}
