// Package keys reads the keys that Kubernetes gives its objects in etcd, and
// writes them: /registry/pods/default/web ⇄ pods, namespace default, name web.
// It imports the standard library only.
//
// Where the layout comes from: the storage prefixes in Kubernetes'
// test/integration/etcd/data.go and
// pkg/kubeapiserver/default_storage_factory_builder.go (1.37).
package keys

import (
	"slices"
	"strings"
)

// CompactRevKey is the marker on which the compactors of all kube-apiservers agree:
// each round writes into it the revision that the next round compacts to. It is under
// no prefix.
//
// Source: k8s.io/apiserver, pkg/storage/etcd3/compact.go (compactRevKey).
const CompactRevKey = "compact_rev_key"

// Key is what the key of an object says. The API group of a built-in resource
// is not in its key; that of a custom resource is.
type Key struct {
	Prefix    string // kube-apiserver's --etcd-prefix: "/registry"
	Group     string // empty for built-in resources, but for those stored under their group
	Resource  string // the API's plural name: "nodes", though the key says "minions"
	Namespace string // empty for cluster-scoped objects
	Name      string
}

// Layout knows under which prefixes Kubernetes stores its objects.
type Layout struct {
	// Prefixes begin with a slash and don't end with one.
	Prefixes []string
}

// Default is the layout of clusters that nobody has given a prefix of their own:
// upstream's /registry, and OpenShift's two.
func Default() Layout {
	return Layout{Prefixes: []string{"/registry", "/kubernetes.io", "/openshift.io"}}
}

// With returns a layout that knows one more prefix, written as it is given to
// kube-apiserver: with or without slashes at its ends. Commas separate several, of
// several clusters in one etcd.
func (l Layout) With(prefix string) Layout {
	out := Layout{Prefixes: slices.Clone(l.Prefixes)}
	for p := range strings.SplitSeq(prefix, ",") {
		if p = "/" + strings.Trim(p, "/"); !slices.Contains(out.Prefixes, p) {
			out.Prefixes = append(out.Prefixes, p)
		}
	}
	return out
}

// Parse reads a key. It is true only for a key that String would write again
// byte for byte.
//
// Scope is not in the key. A resource known to be cluster-scoped takes one
// segment, its name. Any other takes one or two: two are namespace and name, one
// is the name of a cluster-scoped object of a resource we don't know. A first
// segment with a dot is a group, as every custom resource's group has one and no
// built-in resource does; a plural and one or two segments follow it.
func (l Layout) Parse(key string) (Key, bool) {
	k, rest, ok := l.Split(key)
	if !ok {
		return Key{}, false
	}
	segments := strings.Split(rest, "/")
	for _, s := range segments {
		if s == "" {
			return Key{}, false
		}
	}
	switch {
	case len(segments) == 1:
		k.Name = segments[0]
	case len(segments) == 2 && !clusterScoped(k.Resource, k.Group):
		k.Namespace, k.Name = segments[0], segments[1]
	default:
		return Key{}, false
	}
	return k, true
}

// ResourcePrefix returns the part of a key that all objects of its resource
// share, with a slash at its end: "/registry/services/specs/". It is true also
// for a key whose rest Parse does not understand.
func (l Layout) ResourcePrefix(key string) (string, bool) {
	_, rest, ok := l.Split(key)
	if !ok {
		return "", false
	}
	return key[:len(key)-len(rest)], true
}

// Split takes prefix and resource off a key, whether Parse understands the rest or
// not. rest is what follows the slash after the resource.
func (l Layout) Split(key string) (k Key, rest string, ok bool) {
	for _, p := range l.Prefixes {
		if after, found := strings.CutPrefix(key, p+"/"); found && len(p) > len(k.Prefix) {
			k.Prefix, rest = p, after
		}
	}
	if k.Prefix == "" {
		return Key{}, "", false
	}
	first, after, found := strings.Cut(rest, "/")
	if !found || first == "" {
		return Key{}, "", false
	}
	if strings.Contains(first, ".") {
		second, tail, more := strings.Cut(after, "/")
		k.Group, k.Resource = first, second
		return k, tail, more && second != ""
	}
	if first == "services" || first == "oauth" {
		second, tail, more := strings.Cut(after, "/")
		pair := first + "/" + second
		k.Resource = apiName(pair)
		return k, tail, more && k.Resource != pair
	}
	k.Resource = apiName(first)
	return k, after, k.Resource != ""
}

// String writes the key of the object.
func (k Key) String() string {
	if k.Namespace != "" {
		return k.ResourcePrefix() + k.Namespace + "/" + k.Name
	}
	return k.ResourcePrefix() + k.Name
}

// ResourcePrefix returns what the keys of all objects of the resource begin with.
func (k Key) ResourcePrefix() string {
	if k.Group != "" {
		return k.Prefix + "/" + k.Group + "/" + k.Resource + "/"
	}
	return k.Prefix + "/" + storedName(k.Resource) + "/"
}

// GroupResource names the resource as kubectl does: "widgets.example.com".
func (k Key) GroupResource() string {
	if k.Group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.Group
}

// EveryNamespace names two namespaces that every Kubernetes cluster has.
func EveryNamespace() []string { return []string{"default", "kube-system"} }

// PrefixOf recognises a --etcd-prefix nobody told us about by one of the two
// namespaces that every Kubernetes cluster has: /my/prefix/namespaces/default →
// /my/prefix.
func PrefixOf(key string) (string, bool) {
	for _, ns := range EveryNamespace() {
		if p, ok := strings.CutSuffix(key, "/namespaces/"+ns); ok && len(p) > 1 && p[0] == '/' {
			return p, true
		}
	}
	return "", false
}
