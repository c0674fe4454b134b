package ops

import (
	"slices"
	"strings"

	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/lead"
)

// Names of what is protected beside resources and namespaces.
const (
	protectMarker   = keys.CompactRevKey // kube-apiserver's compactor reads it
	protectElection = "kvd-elections"    // kvd's own, of running schedules
	protectAll      = "every-key"        // a selection that leaves nothing
	protectStray    = "stray-objects"    // of Kubernetes, below no root that is known
	protectSpace    = "namespace/"       // and the name of a namespace that the cluster itself lives in
)

// protectedResources may not go by a slip, each as --i-mean-it names it. Deleting
// in etcd runs no finalizer and asks no admission; what of these is gone is not
// made again by a controller, or not before the outage.
func protectedResources() []string {
	return []string{
		// What everything else lives in, is made of, or is found through.
		"namespaces", "nodes", "customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io",
		// Who may do what, and how they prove who they are.
		"secrets", "serviceaccounts", "roles", "rolebindings", "clusterroles", "clusterrolebindings",
		"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings",
		// Where data is.
		"persistentvolumes", "persistentvolumeclaims", "storageclasses", "volumeattachments", "csidrivers", "csinodes",
		// Addresses: an IP or a port that is not written down any more is given away again.
		"services", "ranges", "servicecidrs", "ipaddresses", "ingressclasses",
		// What runs, and in what order.
		"deployments", "statefulsets", "daemonsets", "priorityclasses", "runtimeclasses", "flowschemas", "prioritylevelconfigurations",
		// The API servers among themselves.
		"masterleases", "peerserverleases",
		// OpenShift's kinds of the same.
		"users", "identities", "useridentities", "groups", "oauthclients", "securitycontextconstraints",
		"rangeallocations", "clusternetworks", "hostsubnets", "netnamespaces",
	}
}

// protectedGroups are those custom resources that a distribution is configured
// with, whatever their name.
func protectedGroups() []string { return []string{"config.openshift.io", "operator.openshift.io"} }

// systemNamespaces hold what the cluster itself runs on.
func systemNamespaces() []string { return []string{"kube-system", "kube-public", "kube-node-lease"} }

// protector says what of a key space is protected. A key may lie below several
// roots, as /registry/a/secrets/b/s does where one cluster has the --etcd-prefix
// /registry and another /registry/a: it is looked at as an object of each.
type protector struct {
	roots     []string
	resources []string
}

func newProtector(roots []string) protector { return protector{roots, protectedResources()} }

// of returns the names under which a key is protected, as --i-mean-it takes them.
func (p protector) of(key string) []string {
	switch {
	case key == protectMarker:
		return []string{protectMarker}
	case strings.HasPrefix(key, lead.Prefix):
		return []string{protectElection}
	}
	var out []string
	for _, root := range p.roots {
		for _, name := range p.below(root, key) {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	if _, root := keys.PrefixOf(key); root && !slices.Contains(out, "namespaces") { // of a cluster whose prefix nobody told
		out = append(out, "namespaces")
	}
	return out
}

// below returns the names under which a key is protected if root is some cluster's
// --etcd-prefix.
func (p protector) below(root, key string) []string {
	path, ok := strings.CutPrefix(key, root)
	if !ok || !strings.HasPrefix(path, "/") {
		return nil
	}
	const any = "/root" // a layout has no empty prefix, and a cluster may
	k, rest, ok := keys.Layout{Prefixes: []string{any}}.Split(any + path)
	if !ok {
		return nil
	}
	var out []string
	if p.resource(k) {
		out = append(out, k.GroupResource())
	}
	// Events say what was, and custom resources in there are named by their kind
	// or by the namespace, which is looked at before.
	ns, _, namespaced := strings.Cut(rest, "/")
	if namespaced && k.Group == "" && k.Resource != "events" && slices.Contains(systemNamespaces(), ns) {
		out = append(out, protectSpace+ns)
	}
	return out
}

func (p protector) resource(k keys.Key) bool {
	return slices.Contains(p.resources, k.GroupResource()) || slices.Contains(protectedGroups(), k.Group)
}

// selected returns what a selection names outright, before any key is read or
// counted.
func (p protector) selected(s DeleteSelection) map[string]int64 {
	out := map[string]int64{}
	for _, r := range s.Resources {
		resource, group, _ := keys.Resource(r)
		if k := (keys.Key{Group: group, Resource: resource}); p.resource(k) {
			out[k.GroupResource()] = 0
		}
	}
	for _, ns := range s.Namespaces {
		if slices.Contains(systemNamespaces(), ns) {
			out[protectSpace+ns] = 0
		}
	}
	return out
}
