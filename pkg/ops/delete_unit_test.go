package ops

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
)

func TestWhatIsNeverDeletedBySlip(t *testing.T) {
	p := newProtector(append(keys.Default().Prefixes, "/my/base", "/registry/inner", "", "tenant/registry"))
	for key, want := range map[string]string{
		"/registry/secrets/default/s":                                      "secrets",
		"/registry/namespaces/a":                                           "namespaces",
		"/registry/minions/n":                                              "nodes",
		"/registry/services/specs/a/s":                                     "services",
		"/registry/clusterrolebindings/x":                                  "clusterrolebindings",
		"/registry/ranges/serviceips":                                      "ranges",
		"/registry/apiextensions.k8s.io/customresourcedefinitions/w.e.com": "customresourcedefinitions.apiextensions.k8s.io",
		"/registry/config.openshift.io/clusterversions/version":            "clusterversions.config.openshift.io",
		"/registry/configmaps/kube-system/kubeadm-config":                  "namespace/kube-system",
		"/registry/leases/kube-node-lease/n1":                              "namespace/kube-node-lease",
		"/registry/secrets/kube-system/s":                                  "secrets namespace/kube-system",
		"/my/base/secrets/a/s":                                             "secrets",
		"/other/base/namespaces/default":                                   "namespaces",
		"/registry/secrets/a/b/c":                                          "secrets",
		"/registry/clusterroles/ns/x":                                      "clusterroles",
		"/registry/minions/a/b":                                            "nodes",
		"/registry/inner/deployments/a/d":                                  "deployments",
		"/registry/inner/namespaces/default":                               "namespaces",
		"/registry/inner/configmaps/kube-system/c/d":                       "namespace/kube-system",
		"/registry/other/secrets/a/s":                                      "",
		"tenant/registry/secrets/a/s":                                      "secrets",
		"/secrets/a/s":                                                     "secrets",
		"/my/basement/secrets/a/s":                                         "",
		"compact_rev_key":                                                  "compact_rev_key",
		"kvd/schedule/defrag/1":                                            "kvd-elections",
		"/registry/events/kube-system/e":                                   "",
		"/registry/wgpolicyk8s.io/policyreports/kube-system/r":             "",
		"/registry/configmaps/default/c":                                   "",
		"/registry/pods/a/p":                                               "",
		"/app/config":                                                      "",
	} {
		if got := strings.Join(p.of(key), " "); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	for _, r := range protectedResources() {
		if resource, group, ok := keys.Resource(r); !ok || (keys.Key{Group: group, Resource: resource}).GroupResource() != r {
			t.Errorf("%s is not how --resource is compared", r)
		}
	}
}

func TestDeleteSelectionCheck(t *testing.T) {
	l := keys.Default()
	for _, prefix := range []string{"", "/", "/reg", "/registry", "/registry/", "/kubernetes.io/", "/openshift.io"} {
		err := DeleteSelection{Selection: keyspace.Selection{Prefix: prefix}}.check(l)
		if k := fault.KindOf(err); k != fault.Refused && k != fault.Usage {
			t.Errorf("--prefix %q: %v", prefix, err)
		}
		if err := (DeleteSelection{Selection: keyspace.Selection{Prefix: prefix, Resources: []string{"events"}}}).check(l); err != nil {
			t.Errorf("--prefix %q --resource events: %v", prefix, err)
		}
	}
	for _, prefix := range []string{"/registry/e", "/registry/events/", "/app/", "a"} {
		if err := (DeleteSelection{Selection: keyspace.Selection{Prefix: prefix}}).check(l); err != nil {
			t.Errorf("--prefix %q: %v", prefix, err)
		}
	}
}

// TestPacer runs the pacer against servers that take so long for a write, and so
// much longer for each key of a batch.
func TestPacer(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		write, perKey time.Duration
		most          int // keys in a batch, in the end
	}{
		{5 * ms, 10 * time.Microsecond, 128}, {5 * ms, 100 * time.Microsecond, 50}, {500 * time.Microsecond, 50 * time.Microsecond, 10}, {ms, 5 * ms, smallestBatch},
	} {
		p := newPacer(latency{p50: tc.write})
		page := make([]doomed, 1000)
		var busy, waited time.Duration
		for range 200 {
			n := p.fit(page)
			took := tc.write + time.Duration(n)*tc.perKey
			busy += took
			waited += p.answered(took)
			if took > 2*slowdown*tc.write && n > firstBatch {
				t.Errorf("%+v: a batch of %d takes %s", tc, n, took)
			}
		}
		if waited < leastRest*busy {
			t.Errorf("%+v: waited %s, worked %s", tc, waited, busy)
		}
		if p.size > tc.most+firstBatch/4 || p.size < tc.most/2 {
			t.Errorf("%+v: batches of %d", tc, p.size)
		}
	}
}

// TestPacerRests has small writes take longer and longer, and then as before.
func TestPacerRests(t *testing.T) {
	p := newPacer(latency{p50: time.Millisecond})
	for range 20 * recent {
		p.probed(3 * time.Millisecond)
	}
	if got := p.answered(time.Millisecond); got != mostRest*time.Millisecond {
		t.Errorf("while others wait it rests %s", got)
	}
	if got := p.answered(10 * time.Second); got != longest {
		t.Errorf("after an election it rests %s", got)
	}
	for range 20 * recent {
		p.probed(time.Millisecond)
	}
	if got := p.answered(time.Millisecond); got != leastRest*time.Millisecond {
		t.Errorf("while nobody waits it rests %s", got)
	}
}

func TestPacerKeepsTheServersLimits(t *testing.T) {
	p := newPacer(latency{p50: time.Second})
	page := slices.Repeat([]doomed{{key: strings.Repeat("k", 100_000)}}, 20)
	if n := p.fit(page); n != 2 {
		t.Errorf("%d keys of 100 kB in a batch", n)
	}
	for range 100 {
		p.answered(time.Millisecond)
	}
	if p.size != maxTxnOps || !p.refused(128) || p.size != 64 {
		t.Errorf("after a refusal of 128: %d", p.size)
	}
	for range 100 {
		p.answered(time.Millisecond)
	}
	if p.size != 64 {
		t.Errorf("grew beyond what was refused: %d", p.size)
	}
	if p.refused(1) {
		t.Error("one key alone is too much, and yet it goes on")
	}
}

func TestCreatedAt(t *testing.T) {
	// A Pod as the API server stores it, cut to what is looked at: metadata with a
	// name, and a creationTimestamp of 1700000000.
	meta := "\x0a\x01p\x42\x06\x08\x80\xe2\xcf\xaa\x06"
	object := "\x0a" + string(rune(len(meta))) + meta
	unknown := "\x0a\x09\x0a\x02v1\x12\x03Pod\x12" + string(rune(len(object))) + object
	for _, tc := range []struct {
		value string
		want  int64
	}{
		{"k8s\x00" + unknown, 1_700_000_000},
		{`{"kind":"R","apiVersion":"x/v1","metadata":{"name":"r","creationTimestamp":"2023-11-14T22:13:20Z"}}`, 1_700_000_000},
		{`{"metadata":{}}`, 0}, {`{`, 0}, {"", 0}, {"k8s\x00", 0}, {"k8s\x00\x0a\xff", 0}, {"17", 0}, {"k8s:enc:aescbc:v1:key1:xxxx", 0},
	} {
		at, ok := createdAt([]byte(tc.value))
		if ok != (tc.want > 0) || (ok && at.Unix() != tc.want) {
			t.Errorf("%q: %v %v", tc.value, at, ok)
		}
	}
}

func TestEstimate(t *testing.T) {
	g := &DeleteGroup{Keys: 1000}
	for i := range 60 {
		g.size(int64(1000 + i%3))
	}
	if g.estimate(); g.Bytes < 1_000_000 || g.Bytes > 1_003_000 || g.BytesErr == 0 || g.BytesErr > 1000 {
		t.Errorf("%d ± %d", g.Bytes, g.BytesErr)
	}
	if s := g.amount().String(); !strings.HasPrefix(s, "1000 keys, about 97") {
		t.Error(s)
	}
	whole := &DeleteGroup{Keys: 2}
	whole.size(10)
	whole.size(30)
	if whole.estimate(); whole.Bytes != 40 || whole.BytesErr != 0 || fmt.Sprint(whole.amount()) != "2 keys, 40.00 B" {
		t.Errorf("%d ± %d: %s", whole.Bytes, whole.BytesErr, whole.amount())
	}
}
