package codec_test

import (
	"encoding/json"
	"os"
	"testing"

	"kvd/pkg/ops/kube/codec"
	"kvd/pkg/ops/kube/envelope"
)

// FuzzDecode decodes bytes of any origin. Whatever they are, they are named: a tree
// that can be written as JSON and is equal to itself, or a reason why there is none.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"masterlease", "lease-node-nomf"} { // the small ones: of large ones, few are tried
		value, err := os.ReadFile("testdata/k8s-golden/" + name + ".pb")
		if err != nil {
			f.Fatal(err)
		}
		f.Add("", value)
	}
	for _, add := range []struct{ resource, value string }{
		{"secrets", `{"kind":"Secret","apiVersion":"v1","data":{"a":"aHVudGVyMg=="},"metadata":{"annotations":null}}`},
		{"widgets.example.com", `{"kind":"W","apiVersion":"a/v1","metadata":{"name":"n"},"l":[1,{"name":"x"}],"t":true}`},
		{"", `{"kind":{},"apiVersion":1,"metadata":[{"name":7}]}`},
		{"secrets", "k8s:enc:kms:v2:vault:\x0a\x01x\x12\x01\x37"},
		{"", "\xd9\xd9\xf7\xa3japiVersionfe.c/v1dkindfWidgethmetadata\xa1dnameaw"},
		{"", string(wrap("route.openshift.io/v1", "Route", []byte("\x0a\x05\x0a\x03psp")))},
		// What has ways of its own into JSON: quantities, times, numbers or texts, JSON inside.
		{"", string(wrap("v1", "ResourceQuota", []byte("\x0a\x03\x0a\x01q\x12\x0e\x0a\x0c\x0a\x03cpu\x12\x05\x0a\x03100")))},
		{"", string(wrap("apps/v1", "ControllerRevision", []byte("\x0a\x03\x0a\x01r\x12\x04\x0a\x02{}\x18\x01")))},
	} {
		f.Add(add.resource, []byte(add.value))
	}
	c := codec.New()
	f.Fuzz(func(t *testing.T, resource string, value []byte) {
		o := c.Decode(resource, value)
		if o.Tree == nil && o.Problem == "" && o.Form != envelope.Bytes {
			t.Fatalf("%q has the form %s, no tree, and no reason for that", value, o.Form)
		}
		if o.What() == "" {
			t.Fatalf("%q is not named", value)
		}
		if _, err := json.Marshal(o.Tree); err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		if changes := codec.Diff(&o, &o, codec.DiffOptions{}); len(changes) > 0 {
			t.Fatalf("%q differs from itself: %v", value, changes)
		}
		if _, err := json.Marshal(o.Masked()); err != nil {
			t.Fatalf("%q, masked: %v", value, err)
		}
	})
}

// FuzzObject decodes messages of any content as objects of every kind, which a
// change of a whole value seldom reaches.
func FuzzObject(f *testing.F) {
	kinds := []struct{ apiVersion, kind string }{
		{"v1", "Pod"}, {"v1", "Node"}, {"v1", "ResourceQuota"}, {"v1", "Secret"}, {"v1", "Event"}, {"v1", "Service"}, {"v1", "LimitRange"},
		{"apps/v1", "Deployment"}, {"apps/v1", "ControllerRevision"}, {"batch/v1", "CronJob"}, {"autoscaling/v2", "HorizontalPodAutoscaler"},
		{"coordination.k8s.io/v1", "Lease"}, {"discovery.k8s.io/v1", "EndpointSlice"}, {"flowcontrol.apiserver.k8s.io/v1", "FlowSchema"},
		{"resource.k8s.io/v1", "ResourceClaim"}, {"resource.k8s.io/v1", "ResourceSlice"}, {"networking.k8s.io/v1", "NetworkPolicy"},
		{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"}, {"storage.k8s.io/v1", "CSIStorageCapacity"}, {"example.com/v1", "Widget"},
	}
	for _, name := range []string{"pod-exemplar", "node-10img", "secret-sa-token", "event-started"} {
		value, err := os.ReadFile("testdata/k8s-golden/" + name + ".pb")
		if err != nil {
			f.Fatal(err)
		}
		_, body := envelope.Read(value)
		f.Add(uint8(0), body)
	}
	for i := range kinds {
		f.Add(uint8(i), []byte("\x0a\x03\x0a\x01q\x12\x0e\x0a\x0c\x0a\x03cpu\x12\x05\x0a\x03100"))
	}
	c := codec.New()
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		if len(body) > 1<<14 {
			return // longer than wrap can say
		}
		k := kinds[int(kind)%len(kinds)]
		o := c.Decode("", wrap(k.apiVersion, k.kind, body))
		if o.Kind != k.kind && o.Tree["kind"] != o.Kind || o.Tree == nil && o.Problem == "" {
			t.Fatalf("%s is named %+v", k.kind, o)
		}
		if _, err := json.Marshal(o.Masked()); err != nil {
			t.Fatal(err)
		}
	})
}
