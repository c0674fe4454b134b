package server

import (
	"slices"
	"strings"

	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/server/v3/embed"
)

// Profile is a set of defaults for a purpose. It lies under flags, environment
// and config file: whatever these say wins.
type Profile struct {
	Name    string
	Purpose string
	Values  []ProfileValue
}

// ProfileValue is one default of a profile.
type ProfileValue struct {
	Key    string // a flag's name, which is also its key in a config file; or feature-gates.NAME
	Value  string // as the flag is written
	Reason string
}

// Profiles returns what --profile can choose from.
func Profiles() []Profile {
	compactHash := ProfileValue{gateKey("CompactHashCheck"), "true",
		"the leader compares the hash that each member computes while it compacts anyway: members that differ are found within minutes"}
	initialCheck := ProfileValue{gateKey("InitialCorruptCheck"), "true",
		"a member compares its data with the others before it serves after a restart, and does not serve if it differs"}
	return []Profile{
		{"kubernetes", "the etcd of a Kubernetes control plane", []ProfileValue{
			{"quota-backend-bytes", "8589934592",
				"8 GiB, the most that etcd recommends: 5,000 nodes hold 1.6 GB with ten minutes of history, and a burst must not end in NOSPACE at the default 2 GiB"},
			{"watch-progress-notify-interval", "5s",
				"as kubeadm sets it: the API server's watch cache learns that an idle resource is up to date (default 10 min)"},
			compactHash, initialCheck,
		}},
		{"standalone", "an etcd that applications use directly", []ProfileValue{
			{"auto-compaction-mode", "periodic", "history is kept by time, which does not depend on the write rate"},
			{"auto-compaction-retention", "1h",
				"nobody else compacts (under Kubernetes the API server does), and history without an end fills the quota"},
			compactHash, initialCheck,
		}},
	}
}

const gatePrefix = embed.ServerFeatureGateFlagName + "."

func gateKey(gate string) string { return gatePrefix + gate }

// profileNamed returns the profile with a name, none for "".
func profileNamed(name string) (Profile, error) {
	if name == "" {
		return Profile{}, nil
	}
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, usage("profile", "--profile "+name, "no such profile", "one of "+strings.Join(names, ", "))
}

// applyProfile gives each setting of the profile its value where given is false
// for it. Values go through the flags of fs, and so by etcd's own parsers.
func (c *Config) applyProfile(fs *flagSet, given func(key string) bool) error {
	p := c.profile
	for _, v := range p.Values {
		if strings.HasPrefix(v.Key, gatePrefix) || given(v.Key) {
			continue
		}
		// Not fs.Set, which would mark the flag as given by the user.
		if err := fs.set.Lookup(v.Key).Value.Set(v.Value); err != nil {
			return usageErr("profile", "--profile "+p.Name, err, "")
		}
		c.origins[v.Key] = p.origin()
	}
	return nil
}

// applyProfileGates does the same for feature gates, which share one setting:
// one that was set, if only by AllAlpha or AllBeta, keeps its value.
func (c *Config) applyProfileGates() error {
	gates := c.etcd.ServerFeatureGate.(featuregate.MutableFeatureGate) //nolint:forcetypeassert // embed makes it
	set := gatesSet(gates)
	for _, v := range c.profile.Values {
		gate, ok := strings.CutPrefix(v.Key, gatePrefix)
		if !ok || slices.Contains(set, gate) {
			continue
		}
		if err := gates.Set(gate + "=" + v.Value); err != nil {
			return usageErr("profile", "--profile "+c.profile.Name, err, "")
		}
		c.origins[v.Key] = c.profile.origin()
	}
	return nil
}

// leaveRetention takes back what a profile says of how long history is kept where it is
// to be kept by revisions: etcd would take the time for a number of them, in nanoseconds
// (parseCompactionRetention in server/embed/etcd.go), and never compact.
func (c *Config) leaveRetention() {
	const retention = "auto-compaction-retention"
	if c.etcd.AutoCompactionMode != embed.CompactorModeRevision || c.origins[retention] != c.profile.origin() {
		return
	}
	c.etcd.AutoCompactionRetention = embed.NewConfig().AutoCompactionRetention
	delete(c.origins, retention)
	c.note(true, "nothing is compacted: --auto-compaction-mode is revision, and profile "+c.profile.Name+
		" keeps history by time; give --auto-compaction-retention a number of revisions")
}

func (p Profile) origin() string { return "profile " + p.Name }

// gatesSet lists the feature gates that somebody has set.
func gatesSet(gates featuregate.MutableFeatureGate) []string {
	var names []string
	for pair := range strings.SplitSeq(gates.String(), ",") {
		if name, _, ok := strings.Cut(pair, "="); ok {
			names = append(names, name)
		}
	}
	return names
}

// noteProfile says at start what the profile has set.
func (c *Config) noteProfile() {
	if c.profile.Name == "" {
		return
	}
	var fields []string
	for _, v := range c.profile.Values {
		if c.origins[v.Key] == c.profile.origin() {
			fields = append(fields, v.Key, v.Value)
		}
	}
	c.note(false, "profile "+c.profile.Name+": "+c.profile.Purpose, fields...)
}
