//go:build long

package diagnose_test

import (
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// etcd 3.6 does not start on what the v2 API has left under 3.5, in a snapshot or in the
// log, also where the API is off by now; kvd says so of exactly those directories.
func TestCaseV2Content(t *testing.T) {
	type request struct{ method, path string }
	for _, p := range []struct {
		name     string
		requests []request
		puts     int // behind them, with the API off and --snapshot-count=20
		want     string
	}{
		{"a key, in a snapshot", []request{{http.MethodPut, "/v2/keys/coreos.com/network/config"}}, 60, "/coreos.com/network/config"},
		{"a key that was deleted, in the log", []request{{http.MethodPut, "/v2/keys/a"}, {http.MethodDelete, "/v2/keys/a"}}, 0, "2 requests of the v2 API"},
		{"a read through the quorum, in the log", []request{{http.MethodGet, "/v2/keys/?quorum=true"}}, 0, "1 request of the v2 API"},
		{"a key that was deleted, and a snapshot since", []request{{http.MethodPut, "/v2/keys/a"}, {http.MethodDelete, "/v2/keys/a"}}, 60, ""},
		{"nothing", nil, 0, ""},
	} {
		t.Run(p.name, func(t *testing.T) {
			c := servertest.Start(t, servertest.Options{Options: local.Options{Command: local.Command{Path: servertest.OldServer(t, "3.5")}, Args: []string{"--enable-v2=true", "--snapshot-count=20"}}})
			for _, q := range p.requests {
				req, err := http.NewRequestWithContext(t.Context(), q.method, c.Endpoint(0)+q.path, strings.NewReader(url.Values{"value": {"x"}}.Encode()))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				resp, err := http.DefaultClient.Do(req)
				if err != nil || resp.StatusCode >= 300 {
					t.Fatalf("%s %s: %v %v", q.method, q.path, resp, err)
				}
				resp.Body.Close()
			}
			if err := c.Restart(t.Context(), 0, "--enable-v2=false"); err != nil {
				t.Fatal(err)
			}
			client := c.Client(t)
			for range p.puts {
				if _, err := client.Put(t.Context(), "k", "v"); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.StopMember(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, f := range update(t, nil, "3.6", c.DataDir(0)).Findings {
				if f.Severity == diagnose.Critical {
					said = append(said, f.Summary)
				}
			}
			if (p.want == "") != (len(said) == 0) || !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, p.want) }) && p.want != "" {
				t.Errorf("said %q, want %q", said, p.want)
			}
			// What 3.6 really does with a copy of it.
			dir := filepath.Join(t.TempDir(), "copy")
			if out, err := exec.CommandContext(t.Context(), "cp", "-a", c.DataDir(0), dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			cmd := exec.CommandContext(t.Context(), servertest.OldServer(t, "3.6"), "--name="+c.Name(0), "--data-dir="+dir, "--initial-cluster="+c.Name(0)+"="+c.PeerURL(0),
				"--initial-advertise-peer-urls="+c.PeerURL(0), "--listen-peer-urls="+c.PeerURL(0), "--listen-client-urls="+c.Endpoint(0), "--advertise-client-urls="+c.Endpoint(0))
			var log strings.Builder
			cmd.Stdout, cmd.Stderr = &log, &log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-ended:
				if p.want == "" || !strings.Contains(log.String(), "detected disallowed") {
					t.Errorf("3.6 does not start: %s", log.String())
				}
			case <-time.After(8 * time.Second):
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
				<-ended
				if p.want != "" {
					t.Error("3.6 runs, and kvd says that it does not start")
				}
			}
		})
	}
}
