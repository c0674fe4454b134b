package keys

import (
	"slices"
	"testing"
)

func TestResource(t *testing.T) {
	for name, want := range map[string][2]string{
		"pods": {"pods", ""}, "deployments.apps": {"deployments", ""}, "ingresses.networking.k8s.io": {"ingresses", ""},
		"policyreports.wgpolicyk8s.io":                   {"policyreports", "wgpolicyk8s.io"},
		"volumesnapshots.snapshot.storage.k8s.io":        {"volumesnapshots", "snapshot.storage.k8s.io"},
		"gateways.gateway.networking.k8s.io":             {"gateways", "gateway.networking.k8s.io"},
		"customresourcedefinitions.apiextensions.k8s.io": {"customresourcedefinitions", "apiextensions.k8s.io"},
	} {
		resource, group, ok := Resource(name)
		if got := [2]string{resource, group}; got != want || !ok {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", ".apps", "pods/x", "/registry/pods", "things.nodots"} {
		if resource, group, ok := Resource(name); ok {
			t.Errorf("%q is taken for %q of %q", name, resource, group)
		}
	}
}

func TestMeant(t *testing.T) {
	for name, want := range map[string]string{
		"secret": "secrets", "Secrets": "secrets", "minions": "nodes", "ingress": "ingresses", "networkpolicy": "networkpolicies",
		"customresourcedefinitions": "customresourcedefinitions.apiextensions.k8s.io", "apiservice": "apiservices.apiregistration.k8s.io",
		"Widget.example.com": "widgets.example.com",
	} {
		if got := Meant(name); !slices.Contains(got, want) || slices.Contains(got, name) {
			t.Errorf("%s: %q, want %q in it", name, got, want)
		}
	}
}
