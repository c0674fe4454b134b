package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coreos/go-semver/semver"

	"kvd/pkg/ops/cluster"
)

// defect is a fault of some releases that an update ends.
type defect struct {
	from, fixed string // of one minor version: from ≤ version < fixed
	severity    Severity
	what        string
	ref         string
}

// defects are known ones, by what they do to data or to the quota.
func defects() []defect {
	const nested = "a put in a Txn inside a Txn does not count against the quota, so that the file can grow past it without an alarm"
	return []defect{
		{"3.5.0", "3.5.3", Critical, "a member that is killed under load can lose or repeat entries, and differ from its peers from then on", "etcd issue 13766"},
		{"3.5.3", "3.5.6", Warning, "a member that is killed while it defragments can apply entries twice, and differ from its peers from then on", "etcd issue 14685"},
		{"3.4.0", "3.5.33", Info, nested, "etcd issue 22134"},
		{"3.6.0", "3.6.14", Info, nested, "etcd issue 22134"},
		{"3.7.0", "3.7.1", Info, nested, "etcd issue 22134"},
	}
}

// parse reads a version, without what stands behind its numbers.
func parse(s string) (*semver.Version, bool) {
	s, _, _ = strings.Cut(s, "-")
	v, err := semver.NewVersion(s)
	return v, err == nil
}

func (d defect) has(v *semver.Version) bool {
	return !v.LessThan(*semver.New(d.from)) && v.LessThan(*semver.New(d.fixed))
}

// checkVersions looks at which versions run together, and what they are known for.
func checkVersions() Check {
	return Check{
		Name: "versions", Asks: "do the members run one version, without known faults?",
		IDs: []string{"KVD-VERSION-001", "KVD-VERSION-002", "KVD-VERSION-003"}, Needs: []Need{NeedStatus},
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			by := byVersion(v)
			all := slices.Sorted(maps.Keys(by))
			out := in.skew(v, by, all)
			for _, s := range all {
				out = append(out, known(by[s], s)...)
			}
			out = append(out, in.unchecked(v)...)
			return append(out, in.downgrading(v)...), strings.Join(all, ", ")
		},
	}
}

// byVersion groups the members that answered.
func byVersion(v cluster.View) map[string][]cluster.Member {
	by := map[string][]cluster.Member{}
	for _, m := range v.Answered() {
		by[m.Status.Version] = append(by[m.Status.Version], m)
	}
	return by
}

// skew is a remark for patch releases, and a warning for minor ones, during which the
// cluster is held at the older one's abilities, and for those that do not apply the same.
func (in *Input) skew(v cluster.View, by map[string][]cluster.Member, all []string) []Finding {
	if len(all) < 2 {
		return nil
	}
	f := Finding{ID: "KVD-VERSION-001", Severity: Info, Subject: "cluster", Remedy: []string{"finish the update: one member at a time, the leader last"}}
	minors := map[string]bool{}
	var said []string
	for _, s := range all {
		said = append(said, names(by[s])+runs(len(by[s]))+s)
		if p, ok := parse(s); ok {
			minors[fmt.Sprintf("%d.%d", p.Major, p.Minor)] = true
		}
		f.Evidence = append(f.Evidence, Evidence{What: "version of " + names(by[s]), Text: s, Source: "status", At: v.At})
	}
	f.Summary = "the members run different versions: " + list(said)
	if len(minors) > 1 {
		f.Severity = Warning
		f.Summary += "; the cluster can do what the oldest can, and a mixed one is meant for the hours of an update"
	}
	in.appliedApart(&f, v)
	if v.Downgrade() != "" {
		f.ExplainedBy, f.Remedy = []string{"KVD-VERSION-003"}, append([]string{"finish the downgrade or give it up: KVD-VERSION-003"}, f.Remedy[1:]...)
	}
	return []Finding{f}
}

func runs(members int) string {
	if members == 1 {
		return " runs "
	}
	return " run "
}

func known(members []cluster.Member, version string) []Finding {
	v, ok := parse(version)
	if !ok {
		return nil
	}
	var out []Finding
	for _, d := range defects() {
		if d.has(v) {
			out = append(out, Finding{ID: "KVD-VERSION-002", Severity: d.severity, Subject: names(members),
				Summary:  fmt.Sprintf("etcd %s has a known fault: %s", version, d.what),
				Evidence: []Evidence{{What: "version", Text: version, Source: "status of " + names(members), At: members[0].At}, {What: "described in", Text: d.ref, Source: "https://github.com/etcd-io/etcd"}},
				Remedy:   []string{"update to " + d.fixed + " or later"}})
		}
	}
	return out
}

// unchecked: until 3.6 a raised NOSPACE takes the place of the applier that asks for
// permissions (server/etcdserver/apply.go, newApplierV3Capped), so that until it is
// disarmed any user may do what the alarm lets through. Seen on 3.4.23 and 3.5.35.
func (in *Input) unchecked(v cluster.View) []Finding {
	if in.Auth == nil || !in.Auth.Enabled || !v.HasAlarm(cluster.AlarmNoSpace) {
		return nil
	}
	old := slices.DeleteFunc(v.Answered(), func(m cluster.Member) bool {
		p, ok := parse(m.Status.Version)
		return !ok || p.Major != 3 || p.Minor >= 6
	})
	if len(old) == 0 {
		return nil
	}
	return []Finding{{ID: "KVD-VERSION-002", Severity: Critical, Subject: names(old),
		Summary: fmt.Sprintf("while NOSPACE is raised etcd %s asks for no permission to delete keys, to revoke leases, and to change users, roles and authentication: whoever can log in may do all of that", old[0].Status.Version),
		Evidence: []Evidence{{What: "version", Text: old[0].Status.Version, Source: "status of " + names(old), At: old[0].At}, {What: "authentication", Text: "on", Source: in.Auth.Source, At: in.At},
			{What: "described in", Text: "PR 22386", Source: "https://github.com/etcd-io/etcd"}},
		Remedy: []string{"kvd alarm recover  # it ends with the alarm", "etcdctl auth status  # somebody may have switched it off", "update to 3.6 or later"}}}
}
