package keys

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	layout := Default().With("my/prefix/,/registry,tenants/a")
	if n := len(layout.Prefixes); n != 5 {
		t.Errorf("%d prefixes", n)
	}
	for key, want := range map[string]Key{
		"/registry/pods/default/web-0":            {"/registry", "", "pods", "default", "web-0"},
		"/registry/minions/node-1":                {"/registry", "", "nodes", "", "node-1"},
		"/registry/services/specs/default/k":      {"/registry", "", "services", "default", "k"},
		"/registry/services/endpoints/default/k":  {"/registry", "", "endpoints", "default", "k"},
		"/registry/controllers/ns/rc":             {"/registry", "", "replicationcontrollers", "ns", "rc"},
		"/registry/ingress/ns/i":                  {"/registry", "", "ingresses", "ns", "i"},
		"/registry/leases/kube-node-lease/node-1": {"/registry", "", "leases", "kube-node-lease", "node-1"},
		"/registry/masterleases/192.0.2.10":       {"/registry", "", "masterleases", "", "192.0.2.10"},
		"/registry/ranges/servicenodeports":       {"/registry", "", "ranges", "", "servicenodeports"},
		"/registry/events/a/web-0.17a0b1c2d3e4f5": {"/registry", "", "events", "a", "web-0.17a0b1c2d3e4f5"},
		"/registry/clusterroles/system:basic-user": {
			"/registry", "", "clusterroles", "", "system:basic-user"},
		"/registry/apiextensions.k8s.io/customresourcedefinitions/w.example.com": {
			"/registry", "apiextensions.k8s.io", "customresourcedefinitions", "", "w.example.com"},
		"/registry/apiregistration.k8s.io/apiservices/v1.": {
			"/registry", "apiregistration.k8s.io", "apiservices", "", "v1."},
		"/registry/wgpolicyk8s.io/policyreports/team-a/r1": {
			"/registry", "wgpolicyk8s.io", "policyreports", "team-a", "r1"},
		"/registry/example.com/clusterwidgets/w1": {
			"/registry", "example.com", "clusterwidgets", "", "w1"}, // one segment after the plural: cluster-scoped
		"/registry/futurethings/ns/x":              {"/registry", "", "futurethings", "ns", "x"},
		"/registry/futurethings/x":                 {"/registry", "", "futurethings", "", "x"},
		"/kubernetes.io/pods/ns/p":                 {"/kubernetes.io", "", "pods", "ns", "p"},
		"/openshift.io/images/sha256:00ff":         {"/openshift.io", "", "images", "", "sha256:00ff"},
		"/openshift.io/oauth/clients/console":      {"/openshift.io", "", "oauthclients", "", "console"},
		"/registry/resourcepoolstatusrequests/r":   {"/registry", "", "resourcepoolstatusrequests", "", "r"},
		"/registry/peerserverleases/apiserver-x":   {"/registry", "", "peerserverleases", "", "apiserver-x"},
		"/tenants/a/pods/ns/p":                     {"/tenants/a", "", "pods", "ns", "p"},
		"/my/prefix/minions/n":                     {"/my/prefix", "", "nodes", "", "n"},
		"/my/prefix/example.com/widgets/default/w": {"/my/prefix", "example.com", "widgets", "default", "w"},
	} {
		got, ok := layout.Parse(key)
		if !ok || got != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", key, got, ok, want)
		}
		if got.String() != key {
			t.Errorf("String of %q = %q", key, got.String())
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, key := range []string{
		"", "/", "/registry", "/registry/", "/registry/pods", "/registry/pods/", "/registry//x", "/registry/health",
		"/registryx/pods/a/b", "compact_rev_key", "registry/pods/a/b", "/registry/minions/a/b", "/registry/pods/a/b/c",
		"/registry/nodes/n1", "/registry/services/x", "/registry/services/other/x", "/registry/example.com/x",
		"/registry/pods/a//b", "/calico/ipam/v2/host/x", "/registry/namespaces/a/b",
	} {
		if k, ok := Default().Parse(key); ok {
			t.Errorf("Parse(%q) = %+v, want none", key, k)
		}
	}
}

// TestRealRegistry reads every key that a Kubernetes 1.37 API server wrote.
func TestRealRegistry(t *testing.T) {
	f, err := os.Open("testdata/real-registry.keys")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	count, namespaced, foreign := map[string]int{}, map[string]int{}, 0
	for s := bufio.NewScanner(f); s.Scan(); {
		k, ok := Default().Parse(s.Text())
		if !ok {
			foreign++
			if strings.HasPrefix(s.Text(), "/registry/") {
				t.Errorf("not understood: %q", s.Text())
			}
			continue
		}
		if k.String() != s.Text() {
			t.Errorf("%q comes back as %q", s.Text(), k)
		}
		count[k.GroupResource()]++
		if k.Namespace != "" {
			namespaced[k.GroupResource()]++
		}
	}
	if foreign != 0 {
		t.Errorf("%d keys are not understood, want 0", foreign)
	}
	for resource, want := range map[string][2]int{ // keys, and how many of them in a namespace
		"events": {137, 137}, "clusterroles": {73, 0}, "nodes": {12, 0}, "pods": {43, 43}, "namespaces": {12, 0},
		"services": {8, 8}, "endpoints": {8, 8}, "leases": {19, 19}, "ranges": {1, 0}, "masterleases": {1, 0},
		"apiservices.apiregistration.k8s.io": {23, 0}, "widgets.example.invalid": {6, 6}, "servicecidrs": {1, 0},
		"customresourcedefinitions.apiextensions.k8s.io": {1, 0},
	} {
		if got := [2]int{count[resource], namespaced[resource]}; got != want {
			t.Errorf("%s: %d keys, %d namespaced; want %v", resource, got[0], got[1], want)
		}
	}
}

func TestResourcePrefix(t *testing.T) {
	for key, want := range map[string]string{
		"/registry/pods/a/b/c":             "/registry/pods/", // not an object, still in there
		"/registry/services/specs/a/b":     "/registry/services/specs/",
		"/registry/example.com/widgets/w":  "/registry/example.com/widgets/",
		"/registry/pods/\xff":              "/registry/pods/",
		"/registry/example.com/lonely":     "",
		"compact_rev_key":                  "",
		"/registry/minions/a":              "/registry/minions/",
		"/openshift.io/oauth/clients/cons": "/openshift.io/oauth/clients/",
	} {
		if got, ok := Default().ResourcePrefix(key); got != want || ok != (want != "") {
			t.Errorf("ResourcePrefix(%q) = %q, %v; want %q", key, got, ok, want)
		}
	}
}

func TestPrefixOf(t *testing.T) {
	for key, want := range map[string]string{
		"/registry/namespaces/default": "/registry", "/a/b/namespaces/kube-system": "/a/b", "/namespaces/default": "",
		"/registry/namespaces/other": "", "x/namespaces/default": "",
	} {
		if got, ok := PrefixOf(key); got != want || ok != (want != "") {
			t.Errorf("PrefixOf(%q) = %q, %v; want %q", key, got, ok, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, k := range []string{"/registry/pods/a/b", "/registry/services/specs/a/b", "/registry/example.com/w/a",
		"/registry/\xff/\x00/b", "//registry//", "/kubernetes.io/minions/x", "/openshift.io/oauth/clients/c"} {
		f.Add(k)
	}
	layout := Default()
	f.Fuzz(func(t *testing.T, key string) {
		k, ok := layout.Parse(key)
		prefix, under := layout.ResourcePrefix(key)
		if under && !strings.HasPrefix(key, prefix) {
			t.Fatalf("ResourcePrefix(%q) = %q", key, prefix)
		}
		if !ok {
			return
		}
		if k.String() != key {
			t.Fatalf("%q → %+v → %q", key, k, k.String())
		}
		if k.Prefix == "" || k.Resource == "" || k.Name == "" {
			t.Fatalf("%q → %+v, with a part that is empty", key, k)
		}
		if !under || prefix != k.ResourcePrefix() {
			t.Fatalf("%q: prefix %q of the key, %q of the object", key, prefix, k.ResourcePrefix())
		}
		if again, ok := layout.Parse(k.String()); !ok || again != k {
			t.Fatalf("%q: %+v is not stable", key, k)
		}
	})
}
