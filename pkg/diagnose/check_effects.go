package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-semver/semver"

	"kvd/pkg/ops/cluster"
)

// effect is that of a request that older releases carry out and later ones refuse, when it is
// applied: where both run side by side some members have its effect and the others
// do not, and from then on they hold different data. Each was seen to: between 3.6.10 and
// 3.6.16, 3.6.10 and 3.7.3.
type effect struct {
	since []string // the first release of each minor version that refuses it
	what  string
	when  func(*Input) (said string, so bool)
	end   string // how to keep it from happening
}

// otherEffects are checkTxnPermission, checkPutAuth and applierV3Capped in
// server/etcdserver/apply of 3.7 and what stood in their place.
func otherEffects() []effect {
	const asRoot = "until all run one of them let nobody but root write transactions"
	return []effect{
		{[]string{"3.4.42", "3.5.28", "3.6.9", "3.7.0"}, "what a transaction inside a transaction may not do to a key", (*Input).limitedUsers, asRoot},
		{[]string{"3.4.44", "3.5.30", "3.6.11", "3.7.0"}, "a put in a transaction on a lease that has keys which its user may not write", (*Input).limitedUsers, asRoot},
		{[]string{"3.5.33", "3.6.14", "3.7.1"}, "a put in a transaction inside a transaction while NOSPACE is raised", (*Input).isFull, "kvd alarm recover  # before the update goes on"},
		{[]string{"3.6.0"}, "while NOSPACE is raised, a delete that its user may not do", func(in *Input) (string, bool) {
			said, limited := in.limitedUsers()
			full, so := in.isFull()
			return said + ", and " + full, limited && so
		}, "kvd alarm recover  # before the update goes on"},
	}
}

// limitedUsers says who may do less than everything.
func (in *Input) limitedUsers() (string, bool) {
	if in.Auth == nil || !in.Auth.Enabled {
		return "", false
	}
	var out []string
	for _, u := range in.Auth.Users {
		if !slices.Contains(u.Roles, rootRole) {
			out = append(out, printable([]byte(u.Name)))
		}
	}
	const most = 3
	if n := len(out); n > most {
		out = append(out[:most], fmt.Sprintf("%d others", n-most))
	}
	return "authentication is on, with users who are not root (" + list(out) + ")", len(out) > 0
}

func (in *Input) isFull() (string, bool) {
	return "NOSPACE is raised", in.view().HasAlarm(cluster.AlarmNoSpace)
}

// refuses reports that a release is one of those that do.
func (a effect) refuses(v *semver.Version) bool {
	for _, s := range a.since {
		if first := semver.New(s); first.Major == v.Major && first.Minor == v.Minor {
			return !v.LessThan(*first)
		}
	}
	return !v.LessThan(*semver.New(a.since[len(a.since)-1]))
}

// appliedApart tells of requests that the members as they are now apply differently.
func (in *Input) appliedApart(f *Finding, v cluster.View) {
	for _, a := range otherEffects() {
		var do, refuse []cluster.Member
		for _, m := range v.Answered() {
			switch p, ok := parse(m.Status.Version); {
			case !ok:
			case a.refuses(p):
				refuse = append(refuse, m)
			default:
				do = append(do, m)
			}
		}
		said, so := a.when(in)
		if len(do) == 0 || len(refuse) == 0 || !so {
			continue
		}
		f.Severity = Warning
		f.Summary += fmt.Sprintf("; %s: %s is carried out by %s and refused by %s, so that from the first on they hold different data", said, a.what, names(do), names(refuse))
		if !slices.Contains(f.Remedy, a.end) {
			f.Remedy = append(f.Remedy, a.end)
		}
	}
	if f.Severity == Warning && strings.Contains(f.Summary, "different data") {
		f.Remedy = append(f.Remedy, "kvd diagnose --hash  # afterwards: whether all hold the same")
	}
}

// updateApplied tells of those that will be applied differently in the middle of an update.
func (in *Input) updateApplied(add addFunc, who string, v, to *semver.Version) {
	for _, a := range otherEffects() {
		said, so := a.when(in)
		if so && later(to, v) && !a.refuses(v) && a.refuses(&semver.Version{Major: to.Major, Minor: to.Minor, Patch: 99}) {
			add(Warning, who, fmt.Sprintf("%s: %s is carried out by etcd %s and refused by later ones, so that members which run side by side in an update can come to hold different data", said, a.what, v), "status of "+who, v.String(),
				a.end, "make the update one of minutes, and see afterwards with `kvd diagnose --hash` whether all hold the same")
		}
	}
	if first := semver.New("3.6.11"); v.Major == 3 && v.Minor == 6 && v.LessThan(*first) && to.Minor >= 7 {
		add(Warning, who, "etcd's guide wants 3.6.11 or later on all members before 3.7, and "+who+runsWord(who)+v.String(), "status of "+who, v.String(), "update to the latest 3.6 first, all members")
	}
}

// runsWord is runs for names that are joined already.
func runsWord(who string) string {
	if strings.Contains(who, " and ") {
		return runs(2)
	}
	return runs(1)
}
