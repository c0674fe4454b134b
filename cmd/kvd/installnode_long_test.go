//go:build long

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kvd/pkg/server/servertest"
)

// What docs/install.md says to type on a node of kubeadm and of k3s finds the etcd
// there: in namespaces of its own, where etcd's port is free and the files lie
// where those put them, a server runs with mutual TLS.
func TestInstallOnANode(t *testing.T) {
	if out, err := exec.Command("unshare", "-rmn", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	certs := servertest.NewCerts(t)
	for _, tc := range []struct {
		section, over, dir string
		ca, client         string // names below dir
		commands           int
	}{
		{"## Beside kubeadm's etcd", "/etc", "/etc/kubernetes/pki/etcd", "ca", "healthcheck-client", 2},
		{"## Beside k3s and RKE2", "/var/lib", "/var/lib/rancher/k3s/server/tls/etcd", "server-ca", "client", 1},
		{"## Beside k3s and RKE2", "/var/lib", "/var/lib/rancher/rke2/server/tls/etcd", "server-ca", "client", 1},
	} {
		t.Run(tc.dir, func(t *testing.T) {
			commands := nodeCommands(t, tc.section)
			if len(commands) != tc.commands {
				t.Fatalf("the page shows %d commands: %q", len(commands), commands)
			}
			data := filepath.Join(t.TempDir(), "data")
			script := strings.Join([]string{
				"set -e", "ip link set lo up", "mount -t tmpfs none " + tc.over, "mkdir -p " + tc.dir,
				"cp " + certs.CA + " " + tc.dir + "/" + tc.ca + ".crt",
				"cp " + certs.Client.Cert + " " + tc.dir + "/" + tc.client + ".crt", "cp " + certs.Client.Key + " " + tc.dir + "/" + tc.client + ".key",
				"kvd serve --name cp-1 --unsafe-no-fsync --data-dir " + data + " --cert-file " + certs.Server.Cert + " --key-file " + certs.Server.Key +
					" --client-cert-auth --trusted-ca-file " + certs.CA + " --listen-client-urls https://127.0.0.1:2379" +
					" --advertise-client-urls https://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380" +
					" --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster cp-1=http://127.0.0.1:2380 >" + data + ".log 2>&1 &",
				"server=$!", "trap 'kill $server; wait $server' EXIT", "kvd status --wait --timeout 30s >/dev/null",
				strings.Join(commands, "\n"),
			}, "\n")
			cmd := exec.Command("unshare", "-rmn", "sh", "-c", script) //nolint:gosec // our own page
			cmd.Env = append(withoutClusters(os.Environ()), "HOME="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil {
				log, _ := os.ReadFile(data + ".log")
				t.Fatalf("%q: %v\n%s\n%s", commands, err, out, log)
			}
			if n := len(regexp.MustCompile(`(?m)^cp-1 .* leader .* yes`).FindAll(out, -1)); n != tc.commands {
				t.Errorf("%d commands show the member:\n%s", n, out)
			}
		})
	}
}

// nodeCommands are the calls of kvd in the sh blocks of a section.
func nodeCommands(t *testing.T, section string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repoRoot, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(raw), section+"\n")
	if !ok {
		t.Fatalf("no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	var commands []string
	for i, block := range strings.Split(strings.ReplaceAll(text, "\\\n", ""), "```") {
		if lines, sh := strings.CutPrefix(block, "sh\n"); i%2 == 1 && sh {
			for _, line := range strings.Split(lines, "\n") {
				if _, command, ok := strings.Cut(line, "sudo kvd "); ok {
					commands = append(commands, "kvd "+command)
				}
			}
		}
	}
	return commands
}
