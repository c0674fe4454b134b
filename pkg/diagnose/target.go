package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/coreos/go-semver/semver"

	"kvd/pkg/ops/fault"
)

// Target is an update that is planned.
type Target struct {
	Version   string     // "3.8"
	Manifests []Manifest // how the members are started
}

// Manifest is a file with etcd's flags in it.
type Manifest struct {
	Path     string
	Flags    []string // without dashes and values
	Env      []string // the flags that variables of the environment are for
	Settings []string // of etcd's own configuration file
	Values   []int    // of goneValues
	Args     []string // names in what etcd's flags are made of: kubeadm's extraArgs, the etcd-arg of k3s and RKE2
}

// What a line has of etcd's settings: flags, variables, and, at its begin, a setting of
// a configuration file.
var (
	flagWord = regexp.MustCompile(`--([a-z][a-z0-9-]+)`)
	envWord  = regexp.MustCompile(`\bETCD_([A-Z][A-Z0-9_]*)`)
	yamlWord = regexp.MustCompile(`^([a-z][a-z0-9-]+):`)
	argWord  = regexp.MustCompile(`[\s"'\[,]([a-z][a-z0-9]*(?:-[a-z0-9]+)+)(?:\s*[=:"',\]]|\s*$)`)
)

// The minor versions of 3 that kvd knows what to say of: from the first whose flags were
// compared on, to the one that is yet to come.
const oldestTarget, newestTarget = 4, 8

// CheckTarget is the error, of kind Usage, for a version that kvd knows nothing of.
func CheckTarget(version string) error {
	v, ok := parse(version + ".0")
	switch {
	case !ok:
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: op, Msg: fmt.Sprintf("--target %q: want MAJOR.MINOR, for example 3.7", version)}
	case v.Major != 3 || v.Minor < oldestTarget || v.Minor > newestTarget:
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: op, Msg: fmt.Sprintf("--target %s: unknown version", version), Hint: fmt.Sprintf("3.%d to 3.%d are known", oldestTarget, newestTarget)}
	}
	return nil
}

// AddTarget notes the update that is planned. A manifest is any file with etcd's
// flags in it: a static pod's, a systemd unit, a script.
func (in *Input) AddTarget(version string, manifests []string) error {
	if err := CheckTarget(version); err != nil {
		return err
	}
	in.Target = &Target{Version: version}
	for _, path := range manifests {
		raw, err := os.ReadFile(path)
		if err != nil {
			return fault.OfFile(op, path, "manifest", err)
		}
		m := Manifest{Path: path}
		for line := range strings.Lines(string(raw)) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			set, _, _ := strings.Cut(line, " #") // what stood there before is told in such a comment
			m.read(set)
		}
		m.Settings = slices.DeleteFunc(m.Settings, m.othersToo())
		in.Target.Manifests = append(in.Target.Manifests, m)
	}
	return nil
}

// read takes what a line has.
func (m *Manifest) read(line string) {
	for _, w := range flagWord.FindAllStringSubmatch(line, -1) {
		m.Flags = append(m.Flags, w[1])
	}
	for _, w := range envWord.FindAllStringSubmatch(line, -1) {
		m.Env = append(m.Env, strings.ToLower(strings.ReplaceAll(w[1], "_", "-")))
	}
	m.readValues(line)
	for _, w := range argWord.FindAllStringSubmatch(line, -1) {
		m.Args = append(m.Args, w[1])
	}
	if w := yamlWord.FindStringSubmatch(line); w != nil {
		m.Settings = append(m.Settings, w[1])
	}
}

// othersToo tells the settings of one word, as "debug", that are not etcd's: k3s's own
// configuration has them where etcd's has its, as Talos' and the values of charts do. What
// else is at the begin of a line, an address to listen on, says whose the file is.
func (m *Manifest) othersToo() func(setting string) bool {
	ours := slices.ContainsFunc(m.Settings, func(s string) bool {
		return slices.Contains([]string{"listen-client-urls", "listen-peer-urls", "advertise-client-urls", "initial-advertise-peer-urls", "initial-cluster", "initial-cluster-state", "initial-cluster-token"}, s)
	})
	return func(s string) bool { return !ours && !strings.Contains(s, "-") }
}

// removal is a flag that a version no longer has, or may no longer have: a server
// that meets an unknown flag does not start.
type removal struct{ flag, gone, instead string }

// removals are by comparison of the flags of etcd 3.4 to 3.7; those of 3.8 by what 3.7
// says of them.
func removals() []removal {
	return []removal{
		{"experimental-backend-bbolt-freelist-type", "3.5", "--backend-bbolt-freelist-type"},
		{"debug", "3.5", "--log-level=debug"}, {"log-package-levels", "3.5", "--log-level"},
		{"enable-v2", "3.6", "nothing: the v2 API is gone"}, {"experimental-enable-v2v3", "3.6", "nothing: the v2 API is gone"},
		{"proxy", "3.6", "etcd grpc-proxy"}, {"proxy-dial-timeout", "3.6", "etcd grpc-proxy"}, {"proxy-failure-wait", "3.6", "etcd grpc-proxy"},
		{"proxy-read-timeout", "3.6", "etcd grpc-proxy"}, {"proxy-refresh-interval", "3.6", "etcd grpc-proxy"}, {"proxy-write-timeout", "3.6", "etcd grpc-proxy"},
		{"discovery", "3.7", "--discovery-token and --discovery-endpoints"}, {"discovery-proxy", "3.7", "--discovery-endpoints"},
		{"max-snapshots", "3.8", "nothing: 3.7 says that it will go"}, {"v2-deprecation", "3.8", "nothing: its value is ignored"},
	}
}

// goneIn says in which version a flag is gone, and what takes its place.
func goneIn(flag string) (gone, instead string, ok bool) {
	for _, r := range removals() {
		if r.flag == flag {
			return r.gone, r.instead, true
		}
	}
	if name, is := strings.CutPrefix(flag, "experimental-"); is {
		if instead, known := experimental()[name]; known {
			return "3.7", cmp.Or(instead, "--"+name), true
		}
	}
	return "", "", false
}

// checkUpdate looks for what an update to the target would trip over.
func checkUpdate() Check {
	return Check{
		Name: "update", Asks: "can the cluster be updated?", IDs: []string{"KVD-VERSION-004"}, Needs: []Need{NeedTarget}, Blind: v2Unseen,
		Look: func(in *Input) ([]Finding, string) {
			to := semver.New(in.Target.Version + ".0")
			var out []Finding
			add := func(sev Severity, subject, summary, source, number string, remedy ...string) {
				out = append(out, Finding{ID: "KVD-VERSION-004", Severity: sev, Subject: subject, Summary: summary, Remedy: remedy,
					Evidence: []Evidence{{What: "is", Text: number, Source: source, At: in.At}, {What: "update to", Text: in.Target.Version, Source: "--target"}}})
			}
			by := byVersion(in.view())
			for _, version := range slices.Sorted(maps.Keys(by)) {
				if v, ok := parse(version); ok && !(in.goesDown(to) && later(v, to)) {
					in.updateFrom(add, names(by[version]), v, to)
				}
			}
			in.updateMembers(add, to)
			in.updateStored(add, to)
			in.updateV2(add, to)
			for _, m := range in.Target.Manifests {
				m.judge(add, to)
			}
			return out, fmt.Sprintf("nothing stands against %s that can be seen from here", in.Target.Version)
		},
	}
}

// judge looks for what a version does not have any more: it ends on a flag, warns of a
// variable (verifyEnv in pkg/flags/flag.go), and says nothing of a setting in a
// configuration file, which is decoded without a look at what is left over
// (configFromFile in server/embed/config.go). What becomes of kubeadm's extraArgs and the
// etcd-arg of k3s is one of these.
func (m Manifest) judge(add addFunc, to *semver.Version) {
	m.judgeValues(add, to)
	for _, of := range []struct {
		names    []string
		severity Severity
		written  func(flag string) string
		says     string
	}{
		{m.Flags, Critical, func(f string) string { return "--" + f }, "has no flag %s any more, and does not start with it"},
		{m.Env, Warning, func(f string) string { return "ETCD_" + strings.ToUpper(strings.ReplaceAll(f, "-", "_")) }, "does not know %s any more: it warns of it and goes on without"},
		{m.Args, Critical, func(f string) string { return f }, "has no %s any more: where it becomes a flag (kubeadm) it does not start with it, in a configuration file (k3s, RKE2) it goes on without a word"},
		{m.Settings, Warning, func(f string) string { return f }, "does not know the setting %s any more, and goes on without it and without a word"},
	} {
		for _, flag := range slices.Compact(slices.Sorted(slices.Values(of.names))) {
			gone, instead, ok := goneIn(flag)
			if !ok || to.LessThan(*semver.New(gone + ".0")) {
				continue
			}
			remedy := "replace it by " + instead
			if why, none := strings.CutPrefix(instead, "nothing: "); none {
				remedy = "leave it out: " + why
			}
			add(of.severity, m.Path, fmt.Sprintf("etcd %s "+of.says, gone, of.written(flag)), m.Path, of.written(flag), remedy)
		}
	}
}

type addFunc func(sev Severity, subject, summary, source, number string, remedy ...string)

// updateFrom judges the step from the version that these members run.
func (in *Input) updateFrom(add addFunc, who string, v, to *semver.Version) {
	source := "status of " + who
	in.updateApplied(add, who, v, to)
	stepFrom(add, who, v, to, source)
	if v.Major != 3 || v.Minor != 5 || to.Minor < 6 {
		return
	}
	switch {
	case v.Patch >= 1 && v.Patch < 20:
		add(Critical, who, "a learner that was promoted under 3.5.1 to 3.5.19 is one again under 3.6, where two of them keep the member from starting (etcd issue 19557)", source, v.String(),
			"update all members to 3.5.26 or later first, and wait until they are well")
	case v.Patch < 26:
		add(Critical, who, "members that were removed long ago can come back under 3.6, which takes the member list from another store than 3.5 (etcd issue 20967)", source, v.String(),
			"update all members to 3.5.26 or later first, and wait until they are well")
	}
}

// stepFrom judges how far it is from a version to the target.
func stepFrom(add addFunc, who string, v, to *semver.Version, source string) {
	switch {
	case v.Major == to.Major && v.Minor > to.Minor+1:
		add(Critical, who, fmt.Sprintf("from %d.%d to %d.%d is a downgrade, and etcd makes one only to the minor version before", v.Major, v.Minor, to.Major, to.Minor), source, v.String(),
			fmt.Sprintf("kvd diagnose --target %d.%d  # go to %d.%d first", v.Major, v.Minor-1, v.Major, v.Minor-1))
	case v.Major == to.Major && v.Minor > to.Minor:
		add(Critical, who, fmt.Sprintf("the version of %s is newer than %d.%d: that is a downgrade, which etcd wants to be told of while all members run %d.%d; before, %d.%d does not start on it", who, to.Major, to.Minor, v.Major, v.Minor, to.Major, to.Minor),
			source, v.String(), fmt.Sprintf("etcdctl downgrade validate %d.%d", to.Major, to.Minor), fmt.Sprintf("etcdctl downgrade enable %d.%d", to.Major, to.Minor), "kvd diagnose  # then says which member may be restarted, and when")
	case v.Major == to.Major && v.Minor+1 < to.Minor:
		add(Critical, who, fmt.Sprintf("from %d.%d to %d.%d one goes by every minor version between, with all members on each", v.Major, v.Minor, to.Major, to.Minor), source, v.String(),
			fmt.Sprintf("kvd diagnose --target %d.%d  # update to %d.%d first", v.Major, v.Minor+1, v.Major, v.Minor+1))
	}
}

// updateMembers judges the members as they are now.
func (in *Input) updateMembers(add addFunc, to *semver.Version) {
	v := in.view()
	for _, m := range v.Learners() {
		add(Warning, name(m), name(m)+" is a learner: an update is for a cluster at rest", "member list", "learner", "kvd member promote "+name(m), "kvd member remove "+name(m)+"  # if it is not wanted")
	}
	for _, l := range in.Lists {
		if key(l.Members) != key(usualList(in.Lists)) {
			add(Critical, name(l.Of), "the member list of "+name(l.Of)+" differs from the others', and the next version may take it for the right one", "member list of "+name(l.Of), names(l.Members), "see KVD-RAFT-010 first")
		}
	}
	in.updateDowngrade(add, to)
	in.updateLast(add, to)
	if v.VotersAlive() < len(v.Voters()) {
		add(Critical, "cluster", "not every voter answers: an update takes one more away", "status of each", fmt.Sprintf("%d of %d", v.VotersAlive(), len(v.Voters())), "bring back who is down: KVD-NET-001")
	}
}

// parseStorage reads the version of a storage, which may have two numbers only.
func parseStorage(s string) (*semver.Version, bool) {
	if strings.Count(s, ".") == 1 {
		s += ".0"
	}
	return parse(s)
}
