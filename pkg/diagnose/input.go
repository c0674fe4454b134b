package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/metrics"
)

// Input is all that was found out: data, which can be recorded and made up. What is
// nil was not asked for, or is in Missing with the reason.
type Input struct {
	At     time.Time
	Source string // where the cluster's address came from
	Limits Limits

	Before, Now *Moment // two looks, or the second alone
	// Recorded says that the looks were made of recorded metrics: they are of some
	// members, and say nothing of who else there is.
	Recorded bool
	// Again are more views, taken where the first two looked as if members hold
	// different data.
	Again []cluster.View

	Probes    []Probe // where an alarm is raised
	Lists     []OwnList
	Leases    *Leases
	Keys      *keyspace.Usage
	Compactor *Compactor
	Writes    *Writes
	Ended     *Ended // the member that was read from, if it did not outlive that
	Certs     []Cert
	Schemes   []OtherScheme
	Hashes    []Hash
	Differing []DifferingKey // keys that differ between members whose hashes do
	Dirs      []Dir
	Files     []File
	Disks     []DiskTest
	Backups   *Backups
	Hosts     []Host              // of the members and directories whose machine this is
	Auth      *Auth               // where users and roles are set up
	Tokens    *cluster.TokenTrial // where a user logs in
	Target    *Target

	Missing []Missing
	Asked   []Asked
}

// Moment is the cluster at one time.
type Moment struct {
	View    cluster.View
	Metrics map[uint64]*metrics.Sample // by member
}

// Probe is what a member answered to a GET.
type Probe struct {
	Member cluster.Member
	Path   string
	Code   int
	At     time.Time
}

// OwnList is the member list as one member has it.
type OwnList struct {
	Of      cluster.Member
	Members []cluster.Member
}

// Leases is what was asked of leases.
type Leases struct {
	Member string // who was asked
	Total  int
	Asked  []LeaseLook
	ids    map[int64]bool
	Lost   []LostLease // leases that keys are on and that do not exist
}

// LostLease is a lease that keys of the sample are on, and that its leader does not have.
type LostLease struct {
	ID   string
	Key  []byte // one of them
	Keys int64  // in the sample
}

// LeaseLook is one lease, at both times where there are two.
type LeaseLook struct {
	ID      string
	Granted int64  // seconds
	Before  *int64 // seconds left at the first look
	Now     *int64 // seconds left at the second
	Keys    int
}

// Compactor is what kube-apiserver's marker says of its compactions.
type Compactor struct {
	Key         string
	ModRevision int64 // when it was last written; 0: it is not there
	Compacts    int64 // the revision in it, which an API server compacts to next; 0: none is
	Head        int64
	Age         time.Duration // since it was written, or since the oldest object; 0 where nothing tells
	Kept        time.Duration // how far history reaches back; 0 where nothing tells
	Source      string
}

// Writes is who wrote the latest revisions.
type Writes struct {
	Member   string
	From, To int64 // revisions, both counted
	Keys     []KeyWrites
	Distinct int64 // keys
	Bytes    int64
	Groups   []GroupWrites // what most bytes were written of, the most first; of a live member only
}

// Ended is a member that ended while it was read from.
type Ended struct {
	Member  cluster.Member
	Reading string // "its keys"
	Err     error  // what asking it since ended with
}

// GroupWrites is one resource's share of Writes, or that of keys with one prefix.
type GroupWrites struct {
	Name             string // of the resource, or the prefix
	Resource, Prefix string
	Writes, Bytes    int64
}

// KeyWrites is one key's share of Writes; the most written are kept.
type KeyWrites struct {
	Key    []byte
	Writes int64
	Bytes  int64
}

// Cert is a certificate that was seen.
type Cert struct {
	Of        string // "server m1 (…)", "client", "CA"
	Subject   string
	NotBefore time.Time
	NotAfter  time.Time
	Own       bool // of kvd, whose end ends nobody else
	CA        bool // of the authority in --cacert

	Member uint64 // that shows it to clients or to its peers, 0 for all others
	Peer   bool   // to its peers
	Issuer string // the name of who has issued it
	Key    string // and which key: the authority key identifier, empty where it has none
}

// Hash is one member's digest of its keys.
type Hash struct {
	Member   cluster.Member
	Hash     uint32
	Revision int64 // up to which it counts
	Compact  int64 // only equal ones compare
}

// DifferingKey is a key whose state differs between two members at one revision.
type DifferingKey struct {
	Key  []byte
	What string // "value", "only on m1", "version 4 and 7"
}

// Backups is what was found where backups are kept.
type Backups struct {
	Dir    string
	Newest string // file; empty: there is none
	At     time.Time
	Count  int
	Unread string // why not all of it could be read

	// Files that are not counted: the newest that is not whole, the newest of another
	// cluster, and the one furthest in the future.
	Cut, Other, Ahead BackupFile
}

// BackupFile is a file beside backups that is none to rely on.
type BackupFile struct {
	Name string // empty: there is none
	At   time.Time
	Why  string
}

// has reports whether the input has something of that kind.
func (in *Input) has(n Need) bool {
	switch n {
	case NeedView:
		return in.has(NeedStatus) && !in.Recorded
	case NeedStatus:
		return in.Now != nil && len(in.Now.View.Members) > 0
	case NeedTwo:
		return in.has(NeedStatus) && in.Before != nil
	case NeedMetrics:
		return in.Now != nil && len(in.Now.Metrics) > 0
	case NeedDelta:
		return len(in.deltas()) > 0
	case NeedFsyncs:
		return len(in.latencies(metrics.WALFsync)) > 0
	case NeedCommits:
		return len(in.latencies(metrics.BackendCommit)) > 0
	case NeedLists:
		return len(in.Lists) > 0
	case NeedLeases:
		return in.Leases != nil
	case NeedKeys:
		return in.Keys != nil
	case NeedWrites:
		return len(in.allWrites()) > 0
	case NeedCerts:
		return len(in.Certs) > 0
	case NeedHashes:
		return len(in.Hashes) > 1
	case NeedDirs:
		return len(in.Dirs) > 0
	case NeedCluster:
		return true
	case NeedFiles:
		return len(in.Dirs)+len(in.Files) > 0
	case NeedRevisions:
		return len(in.view().Answered()) > 0 || len(in.revisions()) > 0
	case NeedDBs:
		return len(in.stored()) > 0
	case NeedHeld:
		return slices.ContainsFunc(in.stored(), func(s storedFile) bool { return s.held != nil })
	case NeedContent:
		return len(in.contents()) > 0
	case NeedDisks:
		return len(in.Disks) > 0
	case NeedTarget:
		return in.Target != nil && (in.has(NeedView) || in.has(NeedDBs) || in.has(NeedDirs) || len(in.Target.Manifests) > 0)
	case NeedHost:
		return len(in.Hosts) > 0
	case NeedCompactor:
		return in.Compactor != nil && in.Compactor.Kept > 0
	case NeedTokens:
		return in.Tokens != nil
	case NeedAuth:
		return in.Auth != nil
	case NeedBackups:
		return in.Backups != nil
	}
	return false
}

// missing lists what of a kind could not be had. What comes in two samples is
// missing also where one of them is.
func (in *Input) missing(n Need) []Missing {
	of := map[Need][]Need{NeedContent: {NeedKeys}, NeedDelta: {NeedDelta, NeedMetrics}, NeedFsyncs: {NeedDelta, NeedMetrics}, NeedCommits: {NeedDelta, NeedMetrics}}[n]
	var out []Missing
	for _, m := range in.Missing {
		if m.Need == n || slices.Contains(of, m.Need) {
			out = append(out, m)
		}
	}
	if (n == NeedFsyncs || n == NeedCommits) && in.has(NeedDelta) && !in.has(n) {
		out = append(out, Missing{Need: n, Why: fmt.Sprintf("fewer than %.0f observations in %s: too few to judge", in.Limits.Observations, Seconds.Show(in.interval().Seconds())),
			Hint: "--interval 1m, while something writes"})
	}
	return out
}

func (in *Input) clusterID() string {
	if in.Now == nil || in.Now.View.ID == 0 {
		return ""
	}
	return cluster.FormatID(in.Now.View.ID)
}

// interval is the time between the two looks, 0 where there is one.
func (in *Input) interval() time.Duration {
	if in.Before == nil || in.Now == nil {
		return 0
	}
	return in.Now.View.At.Sub(in.Before.View.At)
}

// view is the cluster as of now, without members that most of them do not know of:
// checkLists tells of those. An empty one where none was taken.
func (in *Input) view() cluster.View {
	if in.Now == nil {
		return cluster.View{}
	}
	v := in.Now.View
	v.Members = slices.DeleteFunc(slices.Clone(v.Members), in.outvoted)
	return v
}

// before finds a member in the first look, with its status.
func (in *Input) before(id uint64) (cluster.Member, bool) {
	if in.Before == nil {
		return cluster.Member{}, false
	}
	m, ok := in.Before.View.MemberByID(id)
	return m, ok && m.Status != nil
}

// memberDelta is what one member counted between the samples.
type memberDelta struct {
	Member cluster.Member
	metrics.Delta
}

// deltas lists the members that have two samples of one process, by name.
func (in *Input) deltas() []memberDelta {
	if in.Before == nil || in.Now == nil {
		return nil
	}
	var out []memberDelta
	for id, to := range in.Now.Metrics {
		from := in.Before.Metrics[id]
		if from == nil || to.Restarted(from) {
			continue
		}
		m, ok := in.Now.View.MemberByID(id)
		if !ok {
			m = cluster.Member{ID: id}
		}
		out = append(out, memberDelta{m, metrics.Between(from, to)})
	}
	slices.SortFunc(out, func(a, b memberDelta) int {
		return cmp.Or(cmp.Compare(a.Member.Name, b.Member.Name), cmp.Compare(a.Member.ID, b.Member.ID))
	})
	return out
}

// evidence of a member's counters between the samples.
func (d memberDelta) evidence(what string, v float64, u Unit) Evidence {
	return Evidence{What: what, Value: v, Unit: u, Source: "metrics of " + name(d.Member) + ", between the samples", At: d.To.At}
}

// sampled is evidence of one sample.
func sampled(m cluster.Member, s *metrics.Sample, what string, v float64, u Unit) Evidence {
	return Evidence{What: what, Value: v, Unit: u, Source: "metrics of " + name(m), At: s.At}
}

// status is evidence of a member's status.
func status(m cluster.Member, what string, v float64, u Unit) Evidence {
	return Evidence{What: what, Value: v, Unit: u, Source: "status of " + name(m), At: m.At}
}

// name is how to name a member to a command.
func name(m cluster.Member) string {
	if m.Name != "" {
		return m.Name
	}
	return cluster.FormatID(m.ID)
}

// names lists members for a sentence.
func names(all []cluster.Member) string {
	out := make([]string, 0, len(all))
	for _, m := range all {
		out = append(out, name(m))
	}
	return list(out)
}

// Auth is who may do what, as far as it concerns the API server's compactions.
type Auth struct {
	Enabled bool
	Users   []AuthUser
	Source  string
}

// AuthUser is a user with what its roles permit.
type AuthUser struct {
	Name  string
	Roles []string
	Write []KeyRange // what it may put and delete
	Read  []KeyRange
}

// KeyRange is a key, or all keys from Key up to End (exclusive; a zero byte: without
// an end), as etcd's permissions have them.
type KeyRange struct{ Key, End []byte }
