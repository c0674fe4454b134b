package server_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvd/pkg/server"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Every value of every profile is one that etcd's flag takes, differs from the
// default, has a reason, and means the same under flags and under a file.
func TestProfiles(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "etcd.yaml")
	if err := os.WriteFile(empty, []byte("name: m1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range server.Profiles() {
		for way, args := range map[string][]string{"flags": {"--name=m1"}, "file": {"--config-file", empty}} {
			c, err := server.Parse(append([]string{"--profile", p.Name}, args...), nil)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := server.Parse(args, nil)
			if err != nil {
				t.Fatal(err)
			}
			before := map[string]string{}
			for _, s := range plain.Settings() {
				before[s.Key] = s.Value
			}
			from := 0
			for _, s := range c.Settings() {
				if s.Origin == "profile "+p.Name {
					from++
				} else if before[s.Key] != s.Value {
					t.Errorf("%s under %s: %s is %s, was %s, and not by the profile", p.Name, way, s.Key, s.Value, before[s.Key])
				}
			}
			if from != len(p.Values) {
				t.Errorf("%s under %s set %d values, has %d", p.Name, way, from, len(p.Values))
			}
			for _, v := range p.Values {
				if v.Reason == "" {
					t.Errorf("%s: no reason for %s", p.Name, v.Key)
				}
			}
		}
	}
}

// A time is no number of revisions: who keeps history by these does not get the
// profile's hour, and is told so.
func TestProfileKeepsNoRevisionsByTime(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"revision": "0", "periodic": "1h"} {
		file := filepath.Join(t.TempDir(), "etcd.yaml")
		if err := os.WriteFile(file, []byte("auto-compaction-mode: "+mode+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for way, args := range map[string][]string{"flags": {"--auto-compaction-mode=" + mode}, "file": {"--config-file", file}} {
			c, err := server.Parse(append([]string{"--profile=standalone"}, args...), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range c.Settings() {
				if s.Key == "auto-compaction-retention" && (s.Value != want || strings.HasPrefix(s.Origin, "profile") != (mode == "periodic")) {
					t.Errorf("%s by %s: retention %s from %s", mode, way, s.Value, s.Origin)
				}
			}
			if warned := strings.Contains(fmt.Sprint(c.Warnings()), "nothing is compacted"); warned != (mode == "revision") {
				t.Errorf("%s by %s: warned %t", mode, way, warned)
			}
		}
	}
}

// Signed tokens work: a cluster with auth and --auth-token jwt takes a password,
// gives a token and accepts it.
func TestTokensSignedByKey(t *testing.T) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pubDER, err := x509.MarshalPKIXPublicKey(pub)
	pubPath := write("jwt.pub", "PUBLIC KEY", pubDER, err)
	privDER, err := x509.MarshalPKCS8PrivateKey(priv)
	privPath := write("jwt.key", "PRIVATE KEY", privDER, err)

	c := servertest.Start(t, servertest.Options{Options: local.Options{
		Args: []string{"--auth-token=jwt,sign-method=EdDSA,ttl=10m,pub-key=" + pubPath + ",priv-key=" + privPath, "--unsafe-no-fsync"}}})
	c.EnableAuth(t)
	if _, err := c.ClientAs(t, "root", servertest.RootPassword).Put(t.Context(), "k", "v"); err != nil {
		t.Error(err)
	}
}
