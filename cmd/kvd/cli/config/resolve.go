package config

import (
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// Input is everything a bundle may come from.
type Input struct {
	Flags       map[string]string // flags that were given, by name; endpoints comma-separated
	ClusterName string            // --cluster-name
	Getenv      func(string) string
	File        *File
	Root        string // where / is, for discovery; "" is the machine's own
}

// Value is one setting with its origin, fit to be shown: secrets are redacted.
type Value struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Origin   string `json:"origin"`
	Redacted bool   `json:"redacted,omitempty"`

	text string // the value itself
}

// redacted stands for a secret that is set.
const redacted = "********"

// Bundle is what was resolved.
type Bundle struct {
	Config   cluster.Config
	Values   []Value
	Warnings []string
}

// source is a bundle that could be used.
type source struct {
	name  string // for people, and Config.Source
	vals  values
	times values // timeouts that come with it

	warnings []string
}

// Resolve applies the order of sources. Where a cluster is and how to get in
// comes from the first source that says anything about it; a flag that was given
// replaces that one setting, and the source's name says so. Timeouts are not
// part of that: each comes from the first place that has it.
func Resolve(in Input) (Bundle, error) {
	if in.File == nil {
		in.File = &File{}
	}
	src, err := choose(in)
	if err != nil {
		return Bundle{}, err
	}
	name, vals := overlay(src, in.Flags)
	vals = append(vals, timeouts(in, src)...)
	vals, err = splitUser(vals)
	if err != nil {
		return Bundle{}, err
	}
	cfg, err := fill(vals)
	if err != nil {
		return Bundle{}, err
	}
	cfg.Source = name
	for i := range vals {
		vals[i].Value, vals[i].Redacted = shown(vals[i].Key, vals[i].text)
	}
	return Bundle{Config: cfg, Values: vals, Warnings: slices.Concat(in.File.Warnings, src.warnings)}, nil
}

// shown is a setting without its secret. A user may carry a password behind a
// colon even where another one replaces it.
func shown(key, text string) (string, bool) {
	name, _, secret := strings.Cut(text, ":")
	switch {
	case key == Password:
		return redacted, true
	case key == User && secret:
		return name + ":" + redacted, true
	}
	return text, false
}

// choose returns the first source that applies.
func choose(in Input) (source, error) {
	if in.ClusterName != "" {
		return named(in.File, in.ClusterName, "--cluster-name")
	}
	kvd := fromEnv("KVD", bundleKeys(), in.Getenv)
	if len(kvd) > 0 {
		return source{name: "environment KVD_*", vals: withEndpoint(kvd)}, nil
	}
	if name := in.Getenv("KVD_CLUSTER_NAME"); name != "" {
		return named(in.File, name, "KVD_CLUSTER_NAME")
	}
	if domain := in.Getenv(discoverySRV); domain != "" && in.Flags[Endpoints] == "" {
		return source{}, noSRV(domain)
	}
	if v := fromEnv("ETCDCTL", bundleKeys(), in.Getenv); len(v) > 0 {
		return source{name: "environment ETCDCTL_*", vals: withEndpoint(v), times: fromEnv("ETCDCTL", timeoutKeys(), in.Getenv)}, nil
	}
	if in.Flags[Endpoints] != "" {
		// What follows is not what somebody set for this shell. Its credentials
		// are not sent to an address that was typed.
		return source{name: "flags", vals: values{}}, nil
	}
	if in.File.Current != "" {
		return named(in.File, in.File.Current, "current")
	}
	if s, ok := discover(in.Root); ok {
		return s, nil
	}
	return source{name: "default", vals: values{Endpoints: "http://127.0.0.1:2379"}}, nil
}

// discoverySRV has etcdctl ask DNS where the cluster is, also beside ETCDCTL_ENDPOINTS
// (etcdctl/v3 ctlv3/command/global.go, endpointsFromCmd).
const discoverySRV = "ETCDCTL_DISCOVERY_SRV"

// noSRV refuses to take etcdctl's default in its place: on a host that runs an etcd
// of its own that is another cluster than the one that is meant.
func noSRV(domain string) error {
	return &fault.Error{Kind: fault.Usage, Cause: "config_value", Op: "settings", Subject: discoverySRV,
		Msg:  "it says where the cluster is, and kvd looks up no SRV records",
		Hint: "give --endpoints or KVD_ENDPOINTS (dig +short SRV _etcd-client-ssl._tcp." + domain + " names hosts and ports; without TLS it is _etcd-client._tcp), or --cluster-name"}
}

// withEndpoint gives a bundle without endpoints etcdctl's own default.
func withEndpoint(v values) values {
	if v[Endpoints] == "" {
		v[Endpoints] = "127.0.0.1:2379"
	}
	return v
}

func named(f *File, name, how string) (source, error) {
	c, err := f.cluster(name)
	if err != nil {
		return source{}, err
	}
	if len(c.Endpoints) == 0 {
		return source{}, &fault.Error{Kind: fault.Usage, Cause: "config_file", Op: "config file", Subject: f.Path,
			Msg: fmt.Sprintf("cluster %q has no endpoints", name)}
	}
	return source{name: fmt.Sprintf("%s, cluster %s (%s)", f.Path, name, how), vals: c.values(), times: c.Timeouts.values()}, nil
}

// overlay replaces settings by flags, in the order in which settings are shown.
func overlay(src source, flags map[string]string) (name string, out []Value) {
	var replaced []string
	for _, k := range bundleKeys() {
		if s, ok := flags[k]; ok {
			replaced = append(replaced, "--"+k)
			if s != "" { // an empty flag takes the setting away
				out = append(out, Value{Key: k, text: s, Origin: "--" + k})
			}
			continue
		}
		if s, ok := src.vals[k]; ok && !hides(flags, src.vals, k) {
			out = append(out, Value{Key: k, text: s, Origin: src.name})
		}
	}
	if src.name == "flags" || len(replaced) == 0 {
		return src.name, out
	}
	return src.name + "; from flags: " + strings.Join(replaced, ", "), out
}

// hides reports that a given flag also replaces setting k of a source: a user brings
// a password, and a password is one however it is given. A password without a user
// beside it is nobody else's, and waits for the flag: a container has the one from a
// Secret, and the other in its command.
func hides(flags map[string]string, from values, k string) bool {
	given := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, ok := flags[n]; return ok })
	}
	another := from[User] != "" || strings.Contains(flags[User], ":") || flags[User] == ""
	user := given(User) && another
	switch k {
	case Password:
		return user || given(PasswordFile)
	case PasswordFile:
		return user || given(Password)
	}
	return false
}

func timeouts(in Input, src source) []Value {
	env := fromEnv("KVD", timeoutKeys(), in.Getenv)
	defaults := in.File.Defaults.Timeouts.values()
	var out []Value
	for _, k := range timeoutKeys() {
		for _, c := range []struct {
			from   values
			origin string
		}{
			{in.Flags, "--" + k}, {env, "environment KVD_*"}, {src.times, src.name}, {defaults, in.File.Path + ", defaults"},
		} {
			if s := c.from[k]; s != "" {
				out = append(out, Value{Key: k, text: s, Origin: c.origin})
				break
			}
		}
	}
	return out
}

// splitUser makes two settings of NAME:PASSWORD, unless a password is given in
// another way, in which case the colon belongs to the name, as with etcdctl. A
// password without a name is refused: whoever gives one would be nobody, and not
// know.
func splitUser(vals []Value) ([]Value, error) {
	i := slices.IndexFunc(vals, func(v Value) bool { return v.Key == User })
	has := slices.ContainsFunc(vals, func(v Value) bool { return v.Key == Password || v.Key == PasswordFile })
	if i < 0 || has {
		return vals, nil
	}
	name, pw, ok := strings.Cut(vals[i].text, ":")
	if !ok {
		return vals, nil
	}
	if name == "" {
		return nil, &fault.Error{Kind: fault.Usage, Cause: "config_value", Op: "settings", Subject: vals[i].where(),
			Msg: "there is no name before the colon", Hint: "give NAME:PASSWORD"}
	}
	vals[i].text = name
	return slices.Insert(vals, i+1, Value{Key: Password, text: pw, Origin: vals[i].Origin}), nil
}
