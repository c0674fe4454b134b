//go:build long

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen"
	"kvd/pkg/ops"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/servertest"
)

// trialQuota is the quota of the clusters on which the commands are tried.
const (
	trialQuota     = 20 << 20
	trialQuotaFlag = "--quota=20MiB"
)

// trial is one command as it is tried on a cluster of each version.
type trial struct {
	command string                  // its path in the tree
	shown   string                  // what the page calls it, if more than the command
	args    []string                // what is typed behind it
	more    func(w *world) []string // and what depends on the cluster
	members int                     // with this many members at least
	look    bool                    // changes nothing: run again as a table, for the words people see
	before  func(t *testing.T, w *world)
	during  func(t *testing.T, w *world) // runs beside the command
	// after says what must be so when the command has ended with 0. It is asked
	// for every version; what fails there is no difference but a bug.
	after func(t *testing.T, w *world, o outcome)
}

func (tr trial) name() string {
	if tr.shown != "" {
		return tr.shown
	}
	return tr.command
}

// versionTrials lists what is tried, in order, on one cluster.
func versionTrials() []trial {
	return []trial{
		{command: "status", look: true, before: seed, after: everyMemberAnswers},
		{command: "status", shown: "status --wait", args: []string{"--wait"}, look: true, after: everyMemberAnswers},
		{command: "quota", look: true, after: quotaKnown},
		{command: "quota", shown: "quota --quota SIZE", args: []string{trialQuotaFlag}, look: true, after: quotaKnown},
		{command: "alarm list", look: true},
		{command: "lease list", look: true, before: grant},
		{command: "lease list", shown: "lease list --keys", args: []string{"--keys"}, look: true, after: leaseHasKeys},
		{command: "lease show", more: granted, look: true},
		{command: "keys usage", look: true, after: usageCounts},
		{command: "keys usage", shown: "keys usage --exact", args: []string{"--exact", "--by=lease"}, look: true},
		{command: "keys usage", shown: "keys usage --watch TIME", args: []string{"--watch=1s"}, look: true},
		{command: "keys list", args: []string{"--values"}, look: true, after: lastOnLease},
		{command: "keys get", args: []string{"/registry/configmaps/default/7"}, look: true},
		{command: "keys history", args: []string{"/registry/configmaps/default/7"}, look: true, after: putThrice},
		{command: "explain write", args: []string{"/registry/explained", "--size=1KiB"}, look: true, after: nothingStops},
		{command: "diagnose", args: []string{"--interval=1s", "--fail-on=none", "--hash"}, look: true, after: lookedAtAll},
		{command: "snapshot save", more: destination, after: snapshotVerifies},
		{command: "diff", args: []string{"@head"}, more: func(w *world) []string { return []string{w.saved} }},
		{command: "keys delete", args: []string{"--prefix=/registry/events/", "--yes"}, more: deletedFirst, after: eventsGone},
		{command: "loadgen k8s-heartbeats", args: loaded("--nodes=20", "--period=200ms"), after: loadAnswered},
		{command: "loadgen k8s-objects", args: loaded("--size=8KiB", "--nodes=0", "--rate=20"), after: loadAnswered},
		{command: "loadgen k8s-list", args: loaded("--objects=20", "--nodes=0", "--period=200ms"), after: loadWasWell},
		{command: "loadgen k8s-endpoints", args: loaded("--pods=50", "--nodes=0"), after: loadWasWell},
		{command: "loadgen k8s-events", args: loaded("--sources=5", "--nodes=0", "--rate=20", "--repeats-share=0", "--lease-per-event"), after: loadWasWell},
		{command: "loadgen k8s-watch", args: loaded("--informers=3", "--objects=20", "--rate=50", "--nodes=0"), after: loadWasWell},
		{command: "loadgen k8s-pods", args: loaded("--rate=10", "--step=100ms", "--nodes=0"), after: loadWasWell},
		{command: "loadgen k8s-relist", args: loaded("--objects=50", "--kinds=5", "--nodes=0"), after: loadWasWell},
		{command: "loadgen k8s-cluster", args: loaded("--nodes=10", "--pods-per-node=2", "--kinds=10", "--time-scale=60"), after: loadWasWell},
		{command: "loadgen clean", args: []string{"--compact=false"}, after: nothingLoadedIsLeft},
		{command: "compact", args: []string{"--keep-revisions=5", "--yes"}, after: compacted},
		{command: "defrag", args: []string{"--min-gain=1MiB", "--settle=0s", "--yes"}, after: defragmented},
		{command: "member list", look: true},
		{command: "member move-leader", args: []string{"--yes"}, members: 3},
		{command: "member add", args: []string{"--no-wait", "--yes"}, before: reserve, more: peerURL, after: newcomerStarts},
		{command: "member promote", args: []string{"--yes"}, more: newcomer, after: oneMoreVoter},
		{command: "member replace", args: []string{"--yes"}, before: reserveAnother, more: replacement, during: startOnceAdded, after: replaced},
		{command: "member remove", args: []string{"--yes"}, more: newcomer, after: newcomerGone},
		{command: "member update", args: []string{"--no-wait", "--yes"}, before: reserve, more: firstMovesThere, after: firstHasMoved},
		{command: "lease revoke", args: []string{"--yes"}, before: grant, more: granted, after: goneWithItsKeys},
		{command: "lease revoke", shown: "lease revoke --without-keys", args: []string{"--without-keys", "--rate=1000", "--yes"}, before: grantIdle, after: nothingIdle},
		{command: "alarm disarm", args: []string{"--yes"}, before: raiseNospace, after: writable},
		{command: "alarm disarm", shown: "alarm disarm --quota SIZE", args: []string{trialQuotaFlag, "--yes"}, before: raiseNospace, after: writable},
		{command: "alarm recover", args: []string{"--yes"}, before: fillUp, after: writable},
		{command: "alarm recover", shown: "alarm recover --quota SIZE", args: []string{trialQuotaFlag, "--yes"}, before: fillUp, after: writable},
	}
}

// loaded is what a load is told that is to be short, beside Kubernetes' keys, and
// on a machine that is busy.
func loaded(args ...string) []string {
	return append(args, "--duration=1s", "--warmup=0s", "--max-lag=1m", "--beside-kubernetes")
}

func loadAnswered(t *testing.T, _ *world, o outcome) {
	requests := o.list("requests")
	if len(requests) != 1 || requests[0]["outcome"] != "ok" || requests[0]["count"] == 0.0 {
		t.Errorf("requests %v, want one kind that is ok", requests)
	}
}

// loadWasWell has every request answered, where there are many kinds.
func loadWasWell(t *testing.T, _ *world, o outcome) {
	requests := o.list("requests")
	for _, r := range requests {
		if r["outcome"] != "ok" && r["outcome"] != "unfinished" {
			t.Errorf("request %v", r)
		}
	}
	if len(requests) == 0 {
		t.Error("no requests")
	}
}

func nothingLoadedIsLeft(t *testing.T, w *world, _ outcome) {
	resp, err := w.Client(t).Get(t.Context(), loadgen.Root, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || resp.Count != 0 {
		t.Errorf("%d keys of loads are left, %v", resp.Count, err)
	}
}

// seed writes history worth compacting: 40 keys, 12 MiB in all.
func seed(t *testing.T, w *world) {
	cli, value := w.Client(t), strings.Repeat("v", 100<<10)
	for n := range 120 {
		if _, err := cli.Put(t.Context(), "/registry/configmaps/default/"+strconv.Itoa(n%40), value); err != nil {
			t.Fatal(err)
		}
	}
	if err := sizesSettled(servertest.Context(t, 60*time.Second), cli); err != nil {
		t.Fatal(err)
	}
}

// grant makes a lease with two keys.
func grant(t *testing.T, w *world) {
	cli := w.Client(t)
	l, err := cli.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	w.lease = l.ID
	for _, key := range []string{"/registry/events/default/a", "/registry/events/default/b"} {
		if _, err := cli.Put(t.Context(), key, "v", clientv3.WithLease(l.ID)); err != nil {
			t.Fatal(err)
		}
	}
}

func granted(w *world) []string { return []string{fmt.Sprintf("%x", w.lease)} }

func goneWithItsKeys(t *testing.T, w *world, o outcome) {
	r, err := w.Client(t).Get(t.Context(), "/registry/events/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || r.Count != 0 {
		t.Errorf("%d keys are left, %v", r.Count, err)
	}
	if s := o.list("steps"); len(s) != 1 || s[0]["reason"] != "revoked, with 2 keys" {
		t.Errorf("steps %v", s)
	}
}

// grantIdle makes leases without keys, one with, and the cluster read-only.
func grantIdle(t *testing.T, w *world) {
	for range idleLeases {
		if _, err := w.Client(t).Grant(t.Context(), 3600); err != nil {
			t.Fatal(err)
		}
	}
	grant(t, w)
	raiseNospace(t, w)
}

const idleLeases = 50

// nothingIdle: under NOSPACE, every lease without keys is gone, and no other.
func nothingIdle(t *testing.T, w *world, o outcome) {
	d, _ := o.doc["detail"].(map[string]any)
	if n, _ := d["leases_revoked"].(float64); n < idleLeases || d["leases_kept_got_keys"] != 0.0 {
		t.Errorf("%v", d)
	}
	cli := w.Client(t)
	all, err := cli.Leases(t.Context())
	if err != nil || len(all.Leases) == 0 {
		t.Fatalf("%v, %v; want the one with keys", all, err)
	}
	for _, l := range all.Leases {
		if one, err := cli.TimeToLive(t.Context(), l.ID, clientv3.WithAttachedKeys()); err != nil || len(one.Keys) == 0 {
			t.Errorf("lease %x: %v, %v; want keys", l.ID, one, err)
		}
	}
}

func leaseHasKeys(t *testing.T, _ *world, o outcome) {
	leases := o.list("leases")
	if len(leases) != 1 || leases[0]["keys_count"] != 2.0 || leases[0]["granted_ttl_seconds"] != 3600.0 {
		t.Errorf("leases %v, want one of 3600 s with 2 keys", leases)
	}
}

// usageCounts: as many keys in the groups as in all, and some.
func usageCounts(t *testing.T, _ *world, o outcome) {
	sum := 0.0
	for _, g := range o.list("groups") {
		keys, _ := g["keys"].(float64)
		sum += keys
	}
	total, _ := o.doc["total"].(map[string]any)
	if sum == 0 || total["keys"] != sum {
		t.Errorf("%v keys in groups, %v in all", sum, total["keys"])
	}
}

// lastOnLease: the last line of a list is the last key, with its value and its lease.
func lastOnLease(t *testing.T, w *world, o outcome) {
	if o.doc["key"] != "/registry/events/default/b" || o.doc["lease"] != fmt.Sprintf("%x", w.lease) || o.doc["value_bytes"] != 1.0 {
		t.Errorf("the last key is %v", o.doc)
	}
}

// putThrice: the last line of a history is the last change.
func putThrice(t *testing.T, _ *world, o outcome) {
	if o.doc["what"] != "touched" || o.doc["version"] != 3.0 {
		t.Errorf("the last change is %v", o.doc)
	}
}

// nothingStops: a write that is fine is called so, whatever the version.
func nothingStops(t *testing.T, _ *world, o outcome) {
	if o.doc["verdict"] != ops.WriteAccepted {
		t.Errorf("verdict %v, want %q", o.doc["verdict"], ops.WriteAccepted)
	}
}

// lookedAtAll: all members were compared, and no check is missing what it needs but
// for time to observe.
func lookedAtAll(t *testing.T, _ *world, o outcome) {
	raw, _ := o.doc["not_looked"].([]any)
	for _, n := range raw {
		if m, _ := n.(map[string]any); m["what"] != "WAL fsyncs between the samples" && m["what"] != "backend commits between the samples" {
			t.Errorf("not looked at: %v", m)
		}
	}
}

func destination(w *world) []string {
	w.saved = filepath.Join(w.Dir(0), "saved.db")
	return []string{w.saved}
}

// deletedFirst names the snapshot that is saved before keys are deleted.
func deletedFirst(w *world) []string {
	return []string{"--snapshot", filepath.Join(w.Dir(0), "before.db")}
}

// eventsGone: the keys that were selected are gone, and no other.
func eventsGone(t *testing.T, w *world, _ outcome) {
	for prefix, want := range map[string]int64{"/registry/events/": 0, "/registry/configmaps/": 40} {
		r, err := w.Client(t).Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || r.Count != want {
			t.Errorf("%d keys with %s, %v; want %d", r.Count, prefix, err, want)
		}
	}
}

// snapshotVerifies: the file is whole, has all keys, and is what the manifest says.
func snapshotVerifies(t *testing.T, w *world, o outcome) {
	v, err := snapshot.Verify(t.Context(), w.saved, snapshot.Options{}, progress.Discard)
	if err != nil || v.Verdict != snapshot.Restorable || v.Content.Keys < 42 {
		t.Fatalf("%+v, %v", v, err)
	}
	m, err := snapshot.ReadManifest(snapshot.ManifestPath(w.saved))
	if err != nil || m.SHA256 != v.Content.Digests.FileSHA256 || m.Keys != v.Content.Keys || m.ServerVersion != w.release || m.Revision < m.StartRevision {
		t.Errorf("manifest %+v, %v", m, err)
	}
	if old := strings.HasPrefix(w.release, "3.4.") || strings.HasPrefix(w.release, "3.5."); old && m.StorageVersion != "" {
		t.Errorf("storage version %q of etcd %s", m.StorageVersion, w.release)
	}
	if f, _ := o.doc["file"].(string); f != w.saved {
		t.Errorf("file %q", f)
	}
}

// reserve chooses name and ports of a member that joins.
func reserve(t *testing.T, w *world) {
	i, err := w.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	w.joins = i
}

func newcomer(w *world) []string { return []string{w.Name(w.joins)} }

func peerURL(w *world) []string { return []string{w.Name(w.joins), "--peer-urls", w.PeerURL(w.joins)} }

func newcomerStarts(t *testing.T, w *world, _ outcome) {
	if err := w.StartMember(t.Context(), w.joins); err != nil {
		t.Fatal(err)
	}
}

func oneMoreVoter(t *testing.T, w *world, _ outcome) {
	voters := slices.DeleteFunc(memberList(t, w), func(m *etcdserverpb.Member) bool { return m.IsLearner })
	if len(voters) != w.members+1 {
		t.Errorf("%d voters, want %d", len(voters), w.members+1)
	}
}

func reserveAnother(t *testing.T, w *world) {
	w.leaves = w.joins
	reserve(t, w)
}

func replacement(w *world) []string {
	return []string{w.Name(w.leaves), "--new-name", w.Name(w.joins), "--peer-urls", w.PeerURL(w.joins),
		"--client-urls", w.Endpoint(w.joins), "--state-dir", w.Dir(w.joins)}
}

// startOnceAdded is whoever starts the new member when kvd has added it.
func startOnceAdded(t *testing.T, w *world) { startWhenListed(t, w.Cluster, w.joins) }

func replaced(t *testing.T, w *world, o outcome) {
	oneMoreVoter(t, w, o)
	w.Kill(w.leaves)
	w.Forget(w.leaves)
}

func newcomerGone(t *testing.T, w *world, _ outcome) {
	if all := memberList(t, w); len(all) != w.members {
		t.Errorf("%d members, want %d", len(all), w.members)
	}
	w.Kill(w.joins) // a removed member ends by itself, some time
	w.Forget(w.joins)
}

// firstMovesThere is the last of the changes of the member list: nothing listens there.
func firstMovesThere(w *world) []string {
	return []string{w.Name(0), "--peer-urls", w.PeerURL(w.joins)}
}

func firstHasMoved(t *testing.T, w *world, _ outcome) {
	if all := memberList(t, w); !slices.ContainsFunc(all, func(m *etcdserverpb.Member) bool { return slices.Equal(m.PeerURLs, []string{w.PeerURL(w.joins)}) }) {
		t.Errorf("nobody is at %s: %v", w.PeerURL(w.joins), all)
	}
	w.Forget(w.joins)
}

func memberList(t *testing.T, w *world) []*etcdserverpb.Member {
	t.Helper()
	list, err := w.Client(t, w.Endpoint(0)).MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list.Members
}

// fillUp writes until the cluster is read-only, if it is not yet.
func fillUp(t *testing.T, w *world) {
	cli, value := w.Client(t), strings.Repeat("v", 100<<10)
	for {
		_, err := cli.Put(servertest.Context(t, 60*time.Second), "/registry/configmaps/default/busy", value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := sizesSettled(servertest.Context(t, 60*time.Second), cli); err != nil {
		t.Fatal(err)
	}
}

// raiseNospace raises the alarm without a reason, as a member does that was
// restarted with a larger quota.
func raiseNospace(t *testing.T, w *world) {
	cli := w.Client(t)
	ctx := servertest.Context(t, 60*time.Second)
	list, err := cli.MemberList(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = etcdserverpb.NewMaintenanceClient(cli.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: list.Members[0].ID, Alarm: etcdserverpb.AlarmType_NOSPACE})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cli.Put(ctx, "k", "v"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("a put with the alarm raised: %v", err)
	}
}

func everyMemberAnswers(t *testing.T, w *world, o outcome) {
	members := o.list("members")
	if len(members) != w.members {
		t.Errorf("%d members, want %d", len(members), w.members)
	}
	for _, m := range members {
		v, _ := m["version"].(string)
		size, _ := m["db_size_bytes"].(float64)
		inUse, _ := m["db_in_use_bytes"].(float64)
		if v != w.release || size < 11<<20 || inUse <= 0 || inUse > size || m["error"] != nil {
			t.Errorf("member %v: version %q of %q, size %v, in use %v, error %v", m["name"], v, w.release, size, inUse, m["error"])
		}
	}
}

func quotaKnown(t *testing.T, _ *world, o outcome) {
	if q, _ := o.doc["effective_quota_bytes"].(float64); q != trialQuota {
		t.Errorf("effective quota %v, want %d", o.doc["effective_quota_bytes"], trialQuota)
	}
}

// compacted: most of what was in use is not any more, as every member counts.
func compacted(t *testing.T, w *world, o outcome) {
	step := o.list("steps")[0]
	before, _ := step["before_bytes"].(float64)
	after, _ := step["after_bytes"].(float64)
	if before < 11<<20 || after > 6<<20 || after < 3<<20 {
		t.Errorf("in use before %.0f, after %.0f; want about 12 MiB and 4 MiB", before, after)
	}
	if _, err := w.Client(t).Get(t.Context(), "k", getRev(2)...); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("revision 2 can still be read: %v", err)
	}
}

// defragmented: every member's file is about what is in use.
func defragmented(t *testing.T, w *world, o outcome) {
	done := slices.DeleteFunc(o.list("steps"), func(s map[string]any) bool { return s["action"] != "defragment" || s["state"] != "done" })
	if len(done) != w.members {
		t.Errorf("%d members were defragmented, want %d", len(done), w.members)
	}
	for i := range w.members {
		st, err := w.Client(t, w.Endpoint(i)).Status(t.Context(), w.Endpoint(i))
		if err != nil || st.DbSize > 6<<20 || st.DbSize < 3<<20 {
			t.Errorf("%s: %d bytes (%v) after its defragmentation, want about 4 MiB", w.Name(i), st.DbSize, err)
		}
	}
}

// writable: the alarm is gone, and a put goes through.
func writable(t *testing.T, w *world, _ outcome) {
	cli := w.Client(t)
	if a, err := cli.AlarmList(t.Context()); err != nil || len(a.Alarms) > 0 {
		t.Errorf("alarms %v (%v), want none", a, err)
	}
	if _, err := cli.Put(t.Context(), "k", "v"); err != nil {
		t.Errorf("a put: %v", err)
	}
}
