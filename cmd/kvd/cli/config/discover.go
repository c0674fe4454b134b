package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// layout is where one kind of Kubernetes installation keeps what it takes to
// talk to the etcd on the same machine.
type layout struct {
	name     string
	ca       string
	pairs    []string // certificate and key without .crt and .key, best first
	manifest string   // of etcd's static pod, or etcd's own configuration, which tells the port
	instead  string   // a database in place of etcd's, which is there where no manifest is
}

// layouts lists the installations in the order in which they are looked for.
// kubeadm: kubernetes.io, "PKI certificates and requirements". k3s and RKE2: the
// etcdctl examples of their own documentation. They make the certificates whether they
// run etcd or not.
func layouts() []layout {
	pki := "/etc/kubernetes/pki/etcd/"
	rancher := func(name string) layout {
		server := "/var/lib/rancher/" + name + "/server/"
		dir := server + "tls/etcd/"
		return layout{name: name, ca: dir + "server-ca.crt", pairs: []string{dir + "client", dir + "server-client"},
			manifest: server + "db/etcd/config", instead: server + "db/state.db"}
	}
	return []layout{
		{
			name: "kubeadm", ca: pki + "ca.crt", manifest: "/etc/kubernetes/manifests/etcd.yaml",
			pairs: []string{pki + "healthcheck-client", pki + "peer", pki + "server"},
		},
		rancher("k3s"), rancher("rke2"),
	}
}

// discover looks for a local installation below root. A file that exists and
// may not be read counts: the error that follows says so, where falling back to
// plain text would only confuse.
func discover(root string) (source, bool) {
	if root == "" {
		root = "/"
	}
	for _, l := range layouts() {
		ca := filepath.Join(root, l.ca)
		if !exists(ca) {
			continue
		}
		for _, p := range l.pairs {
			cert, key := filepath.Join(root, p+".crt"), filepath.Join(root, p+".key")
			if !exists(cert) || !exists(key) {
				continue
			}
			endpoint := "https://127.0.0.1:2379"
			manifest := filepath.Join(root, l.manifest)
			out := source{name: "discovered " + l.name, vals: values{Endpoints: localURL(manifest, endpoint), CACert: ca, Cert: cert, Key: key}}
			if other := filepath.Join(root, l.instead); l.instead != "" && !exists(manifest) && exists(other) {
				out.warnings = []string{l.name + " on this machine runs no etcd: it keeps its objects in " + other + " (SQLite)"}
			}
			return out, true
		}
	}
	return apiserver(root)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// manifestFlag finds a flag in a static pod's manifest, or a setting in etcd's own
// configuration. The files are generated, with one on each line.
func manifestFlag(manifest []byte, flag string) string {
	m := regexp.MustCompile(`(?m)^(?:\s*-\s*["']?--` + regexp.QuoteMeta(flag) + `=|` + regexp.QuoteMeta(flag) + `:\s*["']?)([^"'\s]+)`).FindSubmatch(manifest)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// localURL reads from etcd's manifest where it listens, and prefers loopback, which an
// address that stands for all of them has, too: no certificate has that one.
func localURL(path, otherwise string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return otherwise
	}
	urls := splitEndpoints(manifestFlag(b, "listen-client-urls"))
	for i, u := range urls {
		urls[i] = strings.NewReplacer("//0.0.0.0", "//127.0.0.1", "//[::]", "//[::1]").Replace(u)
	}
	for _, u := range urls {
		if strings.Contains(u, "127.0.0.1") || strings.Contains(u, "localhost") || strings.Contains(u, "[::1]") {
			return u
		}
	}
	if len(urls) > 0 {
		return urls[0]
	}
	return otherwise
}

// apiserver is for a control plane whose etcd runs elsewhere: what the API server
// itself uses.
func apiserver(root string) (source, bool) {
	b, err := os.ReadFile(filepath.Join(root, "etc/kubernetes/manifests/kube-apiserver.yaml"))
	if err != nil {
		return source{}, false
	}
	v := values{}
	for key, flag := range map[string]string{Endpoints: "etcd-servers", CACert: "etcd-cafile", Cert: "etcd-certfile", Key: "etcd-keyfile"} {
		s := manifestFlag(b, flag)
		if s == "" {
			continue
		}
		if key != Endpoints {
			s = filepath.Join(root, s)
		}
		v[key] = s
	}
	if v[Endpoints] == "" {
		return source{}, false
	}
	return source{name: "discovered kube-apiserver", vals: v}, true
}
