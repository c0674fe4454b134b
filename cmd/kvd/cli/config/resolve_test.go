package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

const sample = `
current: prod
clusters:
  prod:
    endpoints: [https://10.0.0.1:2379, https://10.0.0.2:2379]
    cacert: pki/ca.crt
    cert: /abs/client.crt
    key: ~/client.key
    user: ops
    password-file: pw
    command-timeout: 30s
  Lab.EU:
    endpoints: http://127.0.0.1:12379
    user: root:se:cret
defaults:
  output: json
  dial-timeout: 7s
`

// put writes a file with its folders.
func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == name {
				return v
			}
		}
		return ""
	}
}

func load(t *testing.T, text string) (*File, string) {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pw"), "file-pw\nsecond line\n")
	f, err := Load(put(t, filepath.Join(dir, "config.yaml"), text), env("HOME=/home/me"))
	if err != nil {
		t.Fatal(err)
	}
	return f, dir
}

func TestOrderOfSources(t *testing.T) {
	f, dir := load(t, sample)
	kubeadm := t.TempDir()
	for _, n := range []string{"ca.crt", "healthcheck-client.crt", "healthcheck-client.key"} {
		put(t, filepath.Join(kubeadm, "etc/kubernetes/pki/etcd", n), "x")
	}
	prod := []string{"https://10.0.0.1:2379", "https://10.0.0.2:2379"}
	all := []string{"KVD_ENDPOINTS=http://kvd:1", "ETCDCTL_ENDPOINTS=etcdctl:1", "ETCDCTL_CACERT=/etcdctl/ca", "ETCDCTL_USER=u:p", "ETCDCTL_DIAL_TIMEOUT=9s"}
	for _, c := range []struct {
		name    string
		in      Input
		eps     []string
		source  string // how it begins
		cacert  string
		user    string
		pw      string
		dial    time.Duration
		command time.Duration
	}{
		{"cluster-name beats everything", Input{ClusterName: "lab.eu", Getenv: env(all...), File: f, Root: kubeadm},
			[]string{"http://127.0.0.1:12379"}, dir, "", "root", "se:cret", 7 * time.Second, 0},
		{"KVD_* beats ETCDCTL_*", Input{Getenv: env(all...), File: f, Root: kubeadm},
			[]string{"http://kvd:1"}, "environment KVD_*", "", "", "", 7 * time.Second, 0},
		{"KVD_CLUSTER_NAME", Input{Getenv: env("KVD_CLUSTER_NAME=PROD", "ETCDCTL_ENDPOINTS=x:1"), File: f},
			prod, dir, dir + "/pki/ca.crt", "ops", "file-pw", 7 * time.Second, 30 * time.Second},
		{"ETCDCTL_* beats the file", Input{Getenv: env(all[1:]...), File: f, Root: kubeadm},
			[]string{"etcdctl:1"}, "environment ETCDCTL_*", "/etcdctl/ca", "u", "p", 9 * time.Second, 0},
		{"ETCDCTL_* without endpoints", Input{Getenv: env("ETCDCTL_CACERT=/ca"), File: f},
			[]string{"127.0.0.1:2379"}, "environment ETCDCTL_*", "/ca", "", "", 7 * time.Second, 0},
		{"other ETCDCTL_* say nothing", Input{Getenv: env("ETCDCTL_API=3", "ETCDCTL_DIAL_TIMEOUT=9s"), File: f},
			prod, dir, dir + "/pki/ca.crt", "ops", "file-pw", 7 * time.Second, 30 * time.Second},
		{"current beats discovery", Input{Getenv: env(), File: f, Root: kubeadm},
			prod, dir, dir + "/pki/ca.crt", "ops", "file-pw", 7 * time.Second, 30 * time.Second},
		{"discovery beats the default", Input{Getenv: env(), Root: kubeadm},
			[]string{"https://127.0.0.1:2379"}, "discovered kubeadm", kubeadm + "/etc/kubernetes/pki/etcd/ca.crt", "", "", 0, 0},
		{"default", Input{Getenv: env(), Root: t.TempDir()},
			[]string{"http://127.0.0.1:2379"}, "default", "", "", "", 0, 0},
		{"a typed endpoint gets no credentials of the file", Input{Flags: map[string]string{Endpoints: "a:1, b:2"}, Getenv: env(), File: f, Root: kubeadm},
			[]string{"a:1", "b:2"}, "flags", "", "", "", 7 * time.Second, 0},
		{"a flag replaces one setting", Input{Flags: map[string]string{Endpoints: "c:1", DialTimeout: "1s"}, Getenv: env(all[1:]...), File: f},
			[]string{"c:1"}, "environment ETCDCTL_*; from flags: --endpoints", "/etcdctl/ca", "u", "p", time.Second, 0},
		{"a user brings its password", Input{Flags: map[string]string{User: "me:mine"}, Getenv: env(), File: f},
			prod, dir, dir + "/pki/ca.crt", "me", "mine", 7 * time.Second, 30 * time.Second},
		{"a password replaces the file's", Input{Flags: map[string]string{Password: "other"}, Getenv: env(), File: f},
			prod, dir, dir + "/pki/ca.crt", "ops", "other", 7 * time.Second, 30 * time.Second},
		{"a password without a user waits for the flag", Input{Flags: map[string]string{Endpoints: "c:1", User: "root"}, Getenv: env("KVD_PASSWORD=secret"), Root: kubeadm},
			[]string{"c:1"}, "environment KVD_*; from flags: --endpoints, --user", "", "root", "secret", 0, 0},
		{"so does etcdctl's", Input{Flags: map[string]string{User: "root"}, Getenv: env("ETCDCTL_ENDPOINTS=e:1", "ETCDCTL_PASSWORD=secret"), File: f},
			[]string{"e:1"}, "environment ETCDCTL_*; from flags: --user", "", "root", "secret", 7 * time.Second, 0},
		{"another user gets no password", Input{Flags: map[string]string{User: "root"}, Getenv: env("KVD_ENDPOINTS=k:1", "KVD_USER=ops", "KVD_PASSWORD=secret")},
			[]string{"k:1"}, "environment KVD_*; from flags: --user", "", "root", "", 0, 0},
		{"nor does one that brings its own", Input{Flags: map[string]string{User: "root:mine"}, Getenv: env("KVD_ENDPOINTS=k:1", "KVD_PASSWORD=secret")},
			[]string{"k:1"}, "environment KVD_*; from flags: --user", "", "root", "mine", 0, 0},
		{"typed endpoints beside etcdctl's SRV", Input{Flags: map[string]string{Endpoints: "c:1"}, Getenv: env("ETCDCTL_DISCOVERY_SRV=example.com")},
			[]string{"c:1"}, "flags", "", "", "", 0, 0},
		{"an empty flag takes away", Input{Flags: map[string]string{User: "", CACert: ""}, Getenv: env(), File: f},
			prod, dir, "", "", "", 7 * time.Second, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Resolve(c.in)
			if err != nil {
				t.Fatal(err)
			}
			got := b.Config
			if !slices.Equal(got.Endpoints, c.eps) || !strings.HasPrefix(got.Source, c.source) || got.CACert != c.cacert || got.User != c.user || got.Password != c.pw {
				t.Errorf("got %+v", got)
			}
			if got.DialTimeout != c.dial || got.CommandTimeout != c.command {
				t.Errorf("timeouts %v %v", got.DialTimeout, got.CommandTimeout)
			}
			for _, v := range b.Values {
				if v.Origin == "" || (c.pw != "" && strings.Contains(v.Value, c.pw) && v.Key != PasswordFile) {
					t.Errorf("shown: %+v", v)
				}
			}
		})
	}
}

func TestFileIsStrict(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"typo in a cluster":  {"clusters:\n  prod:\n    endpont: [a]\n", "endpont"},
		"typo at the top":    {"curent: prod\n", "curent"},
		"typo in defaults":   {"defaults:\n  outptu: json\n", "outptu"},
		"not YAML":           {"clusters: [\n", "yaml"},
		"wrong type":         {"clusters:\n  prod:\n    endpoints: {a: 1}\n", "endpoints"},
		"current is missing": {"current: nope\nclusters:\n  prod:\n    endpoints: [a]\n", "nope"},
	} {
		path := put(t, filepath.Join(t.TempDir(), "c.yaml"), c.text)
		_, err := Load(path, env())
		if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "no.yaml"), env()); fault.KindOf(err) != fault.Usage {
		t.Errorf("a named file that is missing: %v", err)
	}
	if f, err := Load("", env("HOME="+t.TempDir())); err != nil || f.Path != "" {
		t.Errorf("no file at the default path: %+v, %v", f, err)
	}
	home := t.TempDir()
	path := put(t, filepath.Join(home, ".config/kvd/config.yaml"), sample)
	if f, err := Load("", env("HOME="+home)); err != nil || f.Path != path || f.Default("output") != "json" {
		t.Errorf("default path: %+v, %v", f, err)
	}
	if f, err := Load("", env("HOME=/nowhere", "XDG_CONFIG_HOME="+filepath.Join(home, ".config"))); err != nil || f.Path != path {
		t.Errorf("XDG path: %+v, %v", f, err)
	}
	if f, err := Load("", env("HOME=/nowhere", "KVD_CONFIG="+path)); err != nil || f.Path != path {
		t.Errorf("KVD_CONFIG: %+v, %v", f, err)
	}
}

func TestBadValuesNameTheirOrigin(t *testing.T) {
	f, _ := load(t, sample)
	for _, c := range []struct {
		in   Input
		says string
	}{
		{Input{ClusterName: "nope", Getenv: env(), File: f}, "nope"},
		{Input{Getenv: env("KVD_DIAL_TIMEOUT=soon"), File: f}, "settings dial-timeout of environment KVD_*: "},
		{Input{Getenv: env("KVD_ENDPOINTS=a", "KVD_INSECURE_SKIP_TLS_VERIFY=perhaps"), File: f}, "KVD_*"},
		{Input{Flags: map[string]string{MemberTimeout: "0s"}, Getenv: env(), File: f}, "settings --member-timeout: "},
		{Input{Flags: map[string]string{PasswordFile: "/no/such"}, Getenv: env(), File: f}, "--password-file"},
		{Input{Getenv: env("ETCDCTL_DISCOVERY_SRV=example.com"), File: f}, "ETCDCTL_DISCOVERY_SRV"},
		{Input{Getenv: env("ETCDCTL_DISCOVERY_SRV=example.com", "ETCDCTL_ENDPOINTS=a:1")}, "ETCDCTL_DISCOVERY_SRV"},
	} {
		_, err := Resolve(c.in)
		if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.in.Flags, err)
		}
	}
}

func TestDiscovery(t *testing.T) {
	const manifest = "spec:\n  containers:\n  - command:\n    - etcd\n    - --advertise-client-urls=https://10.0.0.9:2379\n    - --listen-client-urls=https://127.0.0.1:2399,https://10.0.0.9:2399\n"
	const external = "    - --etcd-servers=https://10.1.0.1:2379,https://10.1.0.2:2379\n    - --etcd-cafile=/pki/ca.crt\n    - --etcd-certfile=/pki/c.crt\n    - --etcd-keyfile=/pki/c.key\n"
	for name, c := range map[string]struct {
		files map[string]string
		eps   []string
		cert  string
	}{
		"kubeadm with its manifest": {map[string]string{
			"etc/kubernetes/pki/etcd/ca.crt": "", "etc/kubernetes/pki/etcd/healthcheck-client.crt": "", "etc/kubernetes/pki/etcd/healthcheck-client.key": "",
			"etc/kubernetes/manifests/etcd.yaml": manifest}, []string{"https://127.0.0.1:2399"}, "etc/kubernetes/pki/etcd/healthcheck-client.crt"},
		"kubeadm without the health check's": {map[string]string{
			"etc/kubernetes/pki/etcd/ca.crt": "", "etc/kubernetes/pki/etcd/healthcheck-client.crt": "", "etc/kubernetes/pki/etcd/server.crt": "", "etc/kubernetes/pki/etcd/server.key": ""},
			[]string{"https://127.0.0.1:2379"}, "etc/kubernetes/pki/etcd/server.crt"},
		"k3s": {map[string]string{
			"var/lib/rancher/k3s/server/tls/etcd/server-ca.crt": "", "var/lib/rancher/k3s/server/tls/etcd/client.crt": "", "var/lib/rancher/k3s/server/tls/etcd/client.key": ""},
			[]string{"https://127.0.0.1:2379"}, "var/lib/rancher/k3s/server/tls/etcd/client.crt"},
		"k3s, IPv6 alone": {map[string]string{
			"var/lib/rancher/k3s/server/tls/etcd/server-ca.crt": "", "var/lib/rancher/k3s/server/tls/etcd/client.crt": "", "var/lib/rancher/k3s/server/tls/etcd/client.key": "",
			"var/lib/rancher/k3s/server/db/etcd/config": "advertise-client-urls: https://[fd00::5]:2379\nlisten-client-urls: https://[fd00::5]:2379,https://[::1]:2379\nlisten-client-http-urls: https://[::1]:2382\n"},
			[]string{"https://[::1]:2379"}, "var/lib/rancher/k3s/server/tls/etcd/client.crt"},
		"kubeadm on all addresses": {map[string]string{
			"etc/kubernetes/pki/etcd/ca.crt": "", "etc/kubernetes/pki/etcd/server.crt": "", "etc/kubernetes/pki/etcd/server.key": "",
			"etc/kubernetes/manifests/etcd.yaml": "    - --listen-client-urls=https://0.0.0.0:2379\n"}, []string{"https://127.0.0.1:2379"}, "etc/kubernetes/pki/etcd/server.crt"},
		"rke2": {map[string]string{
			"var/lib/rancher/rke2/server/tls/etcd/server-ca.crt": "", "var/lib/rancher/rke2/server/tls/etcd/server-client.crt": "", "var/lib/rancher/rke2/server/tls/etcd/server-client.key": ""},
			[]string{"https://127.0.0.1:2379"}, "var/lib/rancher/rke2/server/tls/etcd/server-client.crt"},
		"etcd elsewhere": {map[string]string{"etc/kubernetes/manifests/kube-apiserver.yaml": external},
			[]string{"https://10.1.0.1:2379", "https://10.1.0.2:2379"}, "pki/c.crt"},
		"nothing": {nil, []string{"http://127.0.0.1:2379"}, ""},
	} {
		root := t.TempDir()
		for f, text := range c.files {
			put(t, filepath.Join(root, f), text)
		}
		b, err := Resolve(Input{Getenv: env(), Root: root})
		if err != nil {
			t.Fatal(err)
		}
		want := cluster.Config{Endpoints: c.eps}
		if c.cert != "" {
			want.Cert = filepath.Join(root, c.cert)
		}
		if !slices.Equal(b.Config.Endpoints, want.Endpoints) || b.Config.Cert != want.Cert || len(b.Warnings) != 0 {
			t.Errorf("%s: %+v, %q", name, b.Config, b.Warnings)
		}
	}
}

// k3s makes etcd's certificates also where it runs none.
func TestDiscoveryOfK3sWithoutEtcd(t *testing.T) {
	root := t.TempDir()
	for _, f := range []string{"tls/etcd/server-ca.crt", "tls/etcd/client.crt", "tls/etcd/client.key", "db/state.db"} {
		put(t, filepath.Join(root, "var/lib/rancher/k3s/server", f), "")
	}
	b, err := Resolve(Input{Getenv: env(), Root: root})
	if err != nil || len(b.Warnings) != 1 || !strings.Contains(b.Warnings[0], "runs no etcd") || !strings.Contains(b.Warnings[0], "state.db") {
		t.Errorf("%q, %v", b.Warnings, err)
	}
	put(t, filepath.Join(root, "var/lib/rancher/k3s/server/db/etcd/config"), "listen-client-urls: https://127.0.0.1:2379\n") // moved to etcd since
	if b, err := Resolve(Input{Getenv: env(), Root: root}); err != nil || len(b.Warnings) != 0 {
		t.Errorf("%q, %v", b.Warnings, err)
	}
}

func TestPasswordOthersMayRead(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "c.yaml"), "clusters:\n  a:\n    endpoints: [x:1]\n    user: root:secret\n  b:\n    endpoints: [y:1]\n")
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o644: 1, 0o640: 1} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		f, err := Load(path, env())
		if err != nil || len(f.Warnings) != want || strings.Contains(strings.Join(f.Warnings, ""), "secret") {
			t.Errorf("%o: %v, %v", mode, f.Warnings, err)
		}
	}
}

// YAML reads some passwords as numbers, of which other characters would come back:
// the member would say that the password is wrong, and nobody would know why.
func TestTextThatYAMLReadsAsANumber(t *testing.T) {
	t.Parallel()
	for _, pw := range []string{"0123456", "1_000", "1e3", "0x10", "true", "12345678901234567890123"} {
		for _, key := range []string{"user", "password"} {
			path := put(t, filepath.Join(t.TempDir(), "config.yaml"), "clusters: {a: {endpoints: 'http://a:1', "+key+": "+pw+"}}\n")
			_, err := Load(path, env())
			if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "quotes") || strings.Contains(err.Error(), pw) {
				t.Errorf("%s: %s: %v", key, pw, err)
			}
		}
		path := put(t, filepath.Join(t.TempDir(), "config.yaml"), "clusters: {a: {endpoints: 'http://a:1', password: '"+pw+"'}}\n")
		if f, err := Load(path, env()); err != nil || string(f.Clusters["a"].Password) != pw {
			t.Errorf("in quotes, %s: %v, %v", pw, f, err)
		}
	}
}
