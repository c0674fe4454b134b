package diagnose

import (
	"fmt"

	"github.com/coreos/go-semver/semver"

	"kvd/pkg/ops/cluster"
)

// descent is how far each member has come in a downgrade. etcd brings the storage of each
// down to the target by itself, a moment after it was enabled, and the older etcd does not
// start on one that was not; so whoever does not answer may have missed it.
type descent struct {
	target                     string // "3.6.0"
	to                         *semver.Version
	done, ready, early, silent []cluster.Member
}

// descends says how a downgrade stands, nil where none is under way.
func descends(v cluster.View) *descent {
	target := v.Downgrade()
	to, ok := parse(target)
	if !ok {
		return nil
	}
	d := &descent{target: target, to: to}
	for _, m := range v.Members {
		if m.Status == nil {
			d.silent = append(d.silent, m)
			continue
		}
		have, known := parse(m.Status.Version)
		stored, tells := parseStorage(m.Status.StorageVersion)
		switch {
		case known && !later(have, to):
			d.done = append(d.done, m)
		case tells && !later(stored, to):
			d.ready = append(d.ready, m)
		default:
			d.early = append(d.early, m)
		}
	}
	return d
}

// later compares minor versions.
func later(a, b *semver.Version) bool {
	return a.Major > b.Major || a.Major == b.Major && a.Minor > b.Minor
}

func minor(v *semver.Version) string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// downgrading says what is to be done next in a downgrade. As long as it is enabled the
// cluster's version stays at the target, whatever the members run (decideClusterVersion in
// server/etcdserver/version/monitor.go), and etcd ends it by itself once all of them run it.
func (in *Input) downgrading(v cluster.View) []Finding {
	d := descends(v)
	if d == nil {
		return nil
	}
	f := Finding{ID: "KVD-VERSION-003", Severity: Warning, Subject: "cluster",
		Summary:  "a downgrade to " + d.target + " is under way: until it ends or is cancelled the cluster stays at " + minor(d.to) + " whatever its members run, and nobody joins who has no data yet, whichever version that is",
		Evidence: []Evidence{{What: "target", Text: d.target, Source: "status of its members", At: v.At}}}
	for _, m := range v.Answered() {
		f.Evidence = append(f.Evidence, Evidence{What: "version, and version of the storage, of " + name(m), Text: m.Status.Version + ", " + orNone(m.Status.StorageVersion), Source: "status of " + name(m), At: m.At})
	}
	if len(d.silent) > 0 {
		f.Remedy = append(f.Remedy, "start what does not answer ("+names(d.silent)+") with the version that it had: it has not heard of the downgrade if it was down, and "+minor(d.to)+" does not start on it then")
	}
	if len(d.early) > 0 {
		f.Remedy = append(f.Remedy, "kvd status  # wait until it shows "+d.target+" as the storage of "+names(d.early)+": etcd "+minor(d.to)+" does not start on it before")
	}
	if len(d.ready) > 0 {
		f.Remedy = append(f.Remedy, "restart one member at a time with "+minor(d.to)+" on its own data dir, the leader last: "+names(d.ready))
	}
	if len(d.done) > 0 && len(d.done) == len(v.Members) {
		f.Remedy = append(f.Remedy, "all run "+minor(d.to)+": etcd ends it by itself within seconds")
	}
	f.Remedy = append(f.Remedy, "etcdctl downgrade cancel  # or give it up; also where all were updated again")
	return []Finding{f}
}

// updateDowngrade judges a downgrade that is under way before the target of an update. If
// it goes there, it is what was planned, and what is left of it KVD-VERSION-003 tells.
func (in *Input) updateDowngrade(add addFunc, to *semver.Version) {
	d := descends(in.view())
	if d == nil {
		return
	}
	if minor(d.to) != minor(to) {
		add(Critical, "cluster", "a downgrade to "+d.target+" is under way, see KVD-VERSION-003", "status of its members", d.target, "etcdctl downgrade cancel  # or finish it")
		return
	}
	for _, m := range d.early {
		add(Critical, name(m), fmt.Sprintf("the storage of %s is still of version %s: etcd %s does not start on it yet", name(m), orNone(m.Status.StorageVersion), minor(to)),
			"status of "+name(m), orNone(m.Status.StorageVersion), "kvd status  # wait until it shows "+d.target)
	}
}

// goesDown reports that the downgrade to that version is under way.
func (in *Input) goesDown(to *semver.Version) bool {
	d := descends(in.view())
	return d != nil && minor(d.to) == minor(to)
}

// updateLast judges whether the update before this one has ended: the storage follows the
// cluster's version, and that is the oldest member's.
func (in *Input) updateLast(add addFunc, to *semver.Version) {
	v := in.view()
	if v.Downgrade() != "" {
		return
	}
	var oldest *semver.Version
	var behind []cluster.Member
	for _, m := range v.Answered() {
		switch have, ok := parse(m.Status.Version); {
		case !ok:
		case oldest == nil || later(oldest, have):
			oldest, behind = have, []cluster.Member{m}
		case !later(have, oldest):
			behind = append(behind, m)
		}
	}
	for _, m := range v.Answered() {
		have, known := parse(m.Status.Version)
		if !known || have.Minor < 6 || !later(to, have) {
			continue // a member that has made this update waits for the others
		}
		stored, tells := parseStorage(m.Status.StorageVersion)
		of, source := orNone(m.Status.StorageVersion), "status of "+name(m)
		switch {
		case tells && !later(have, stored):
		case later(have, oldest):
			add(Critical, name(m), fmt.Sprintf("the storage of %s is still of version %s: its last update has not ended, since not all members have made it: %s%s%s", name(m), of, names(behind), runs(len(behind)), oldest),
				source, of, "kvd status  # finish that update on every member")
		case have.Minor == 6 && have.Patch < 5:
			add(Warning, name(m), fmt.Sprintf("the storage of %s is of version %s, although all run 3.6: up to 3.6.4 etcd does not bring up one that was made before 3.5 (etcd issue 20495)", name(m), of),
				source, of, "update to 3.6.5 or later first, and see that `kvd status` shows 3.6.0 as its storage")
		default:
			add(Critical, name(m), fmt.Sprintf("the storage of %s is still of version %s: it follows a moment after the last member was updated", name(m), of), source, of, "kvd status  # until it shows "+minor(have)+".0")
		}
	}
}
