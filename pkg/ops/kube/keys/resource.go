package keys

import (
	"slices"
	"strings"
)

// Resource reads a resource as kubectl prints it: "pods", "deployments.apps",
// "widgets.example.com". Its group is empty where keys have none, as for all
// resources that are built in, but for those two that are stored under theirs.
// It is false for what can be no resource.
func Resource(name string) (resource, group string, ok bool) {
	resource, group, _ = strings.Cut(name, ".")
	if resource == "" || strings.Contains(name, "/") {
		return "", "", false
	}
	if slices.Contains(builtinGroups(), group) {
		group = ""
	}
	// A group without a dot is no custom resource's.
	return resource, group, group == "" || strings.Contains(group, ".")
}

// builtinGroups are the API groups of what kube-apiserver serves itself and
// stores without a group in the key (staging/src/k8s.io/api in Kubernetes 1.37).
func builtinGroups() []string {
	return []string{"admissionregistration.k8s.io", "apps", "autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io",
		"discovery.k8s.io", "events.k8s.io", "extensions", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "lifecycle.k8s.io", "networking.k8s.io",
		"node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io"}
}

// Meant returns the names that somebody may have meant who gave a resource's in
// another form: in the singular, in capitals, as it is stored, or without its group.
func Meant(name string) []string {
	resource, group, _ := strings.Cut(strings.ToLower(name), ".")
	forms := []string{apiName(resource), resource, resource + "s", resource + "es"}
	if stem, ok := strings.CutSuffix(resource, "y"); ok {
		forms = append(forms, stem+"ies")
	}
	var out []string
	for _, f := range forms {
		g := group
		switch {
		case g != "":
		case f == "customresourcedefinitions":
			g = "apiextensions.k8s.io"
		case f == "apiservices":
			g = "apiregistration.k8s.io"
		}
		if full := (Key{Group: g, Resource: f}).GroupResource(); f != "" && full != name && !slices.Contains(out, full) {
			out = append(out, full)
		}
	}
	return out
}
