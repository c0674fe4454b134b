package diagnose_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
)

// What tools make etcd's flags of names them without dashes.
func TestManifestsWithoutDashes(t *testing.T) {
	for name, p := range map[string]struct {
		text string
		want []string // what is gone in 3.7
	}{
		"kubeadm, v1beta3": {"etcd:\n  local:\n    extraArgs:\n      experimental-compact-hash-check-enabled: \"true\"\n      quota-backend-bytes: \"8589934592\"\n", []string{"experimental-compact-hash-check-enabled"}},
		"kubeadm, v1beta4": {"    extraArgs:\n    - name: experimental-initial-corrupt-check\n      value: \"true\"\n", []string{"experimental-initial-corrupt-check"}},
		"k3s":              {"etcd-arg:\n  - \"experimental-initial-corrupt-check=true\"\n  - 'enable-v2=true'\n  # - experimental-x=1\n", []string{"experimental-initial-corrupt-check", "enable-v2"}},
		"k3s, in one line": {"etcd-arg: [quota-backend-bytes=1, experimental-max-learners=2]\n", []string{"experimental-max-learners"}},
		"a static pod":     {"  - --experimental-max-learners=2\n", []string{"--experimental-max-learners"}}, // told once, as a flag
		"a comment":        {"    extraArgs:\n      corrupt-check-time: 4h # was experimental-corrupt-check-time\n  - --corrupt-check-time=4h # was --experimental-corrupt-check-time\n", nil},
		"others' flags": {"apiServer:\n  extraArgs:\n    experimental-encryption-provider-config: /enc.yaml\nkubelet-arg:\n  - experimental-kernel-memcg-notification=true\n" +
			"  - --experimental-cluster-signing-duration=1h\n", nil},
		"k3s' own debug":    {"debug: true\ncluster-init: true\ndata-dir: /var/lib/rancher/k3s\n", nil},
		"Talos' own debug":  {"version: v1alpha1\ndebug: false\ncluster:\n  discovery:\n    enabled: true\n", nil},
		"values of a chart": {"etcd:\n  extraEnvVars: []\nproxy:\n  http: {}\ndiscovery:\n  enabled: true\n", nil},
		"nothing of it":     {"etcd-arg:\n  - quota-backend-bytes=1\nwrite-kubeconfig-mode: \"0644\"\nnode-label: [max-snapshots-free]\n", nil},
	} {
		path := filepath.Join(t.TempDir(), "manifest")
		if err := os.WriteFile(path, []byte(p.text), 0o600); err != nil {
			t.Fatal(err)
		}
		in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits()}
		if err := in.AddTarget("3.7", []string{path}); err != nil {
			t.Fatal(err)
		}
		r := diagnose.Diagnose(in)
		if len(r.Findings) != len(p.want) {
			t.Errorf("%s: %+v", name, r.Findings)
			continue
		}
		for _, want := range p.want {
			seen := false
			for _, f := range r.Findings {
				seen = seen || f.Severity == diagnose.Critical && strings.Contains(f.Summary, " "+want+" any more")
			}
			if !seen {
				t.Errorf("%s: %s is not told: %+v", name, want, r.Findings)
			}
		}
	}
}

// A flag that a version has may have lost a value, and another may have lost its name
// before the rest of its kind.
func TestManifestsValues(t *testing.T) {
	for _, p := range []struct {
		text, target string
		want         string // of the summary; empty: no finding
	}{
		{"  - --logger=capnslog\n", "3.5", "capnslog for --logger"},
		{"  - --logger=capnslog\n", "3.4", ""},
		{"ETCD_LOGGER=\"capnslog\"\n", "3.6", "capnslog for --logger"},
		{"logger: capnslog\n", "3.6", "capnslog for --logger"},
		{"etcd --logger capnslog --name a\n", "3.6", "capnslog for --logger"},
		{"command: [etcd, \"--logger\", \"capnslog\"]\n", "3.6", "capnslog for --logger"},
		{"  - --logger=zap\n", "3.6", ""},
		{"  - --v2-deprecation=not-yet\n", "3.6", "not-yet for --v2-deprecation"},
		{"ETCD_V2_DEPRECATION=not-yet\n", "3.7", "not-yet for --v2-deprecation"},
		{"  - --v2-deprecation=not-yet\n", "3.5", ""},
		{"  - --experimental-backend-bbolt-freelist-type=map\n", "3.5", "etcd 3.5 has no flag --experimental-backend-bbolt-freelist-type"},
		{"  - --experimental-initial-corrupt-check\n", "3.6", ""},
	} {
		path := filepath.Join(t.TempDir(), "manifest")
		if err := os.WriteFile(path, []byte(p.text), 0o600); err != nil {
			t.Fatal(err)
		}
		in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits()}
		if err := in.AddTarget(p.target, []string{path}); err != nil {
			t.Fatal(err)
		}
		r := diagnose.Diagnose(in)
		if len(r.Findings) != min(1, len(p.want)) || len(r.Findings) == 1 && !strings.Contains(r.Findings[0].Summary, p.want) {
			t.Errorf("%q to %s: %+v, want %q", p.text, p.target, r.Findings, p.want)
		}
	}
}

// A setting of one word is etcd's where the file is: its other settings tell.
func TestManifestOfEtcdItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.yaml")
	if err := os.WriteFile(path, []byte("name: m1\ndata-dir: /var/lib/etcd\nlisten-client-urls: http://10.0.0.1:2379\nproxy: 'off'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits()}
	if err := in.AddTarget("3.7", []string{path}); err != nil {
		t.Fatal(err)
	}
	r := diagnose.Diagnose(in)
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Summary, "the setting proxy any more") {
		t.Errorf("%+v", r.Findings)
	}
}
