package snapshot

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// notes are what somebody must know before saying yes.
func (r *Restore) notes() []string {
	s := r.Verification.Content
	out := []string{
		fmt.Sprintf("%s is %s: %s; revision %d, %s", r.file.Name(), r.Verification.Verdict.Words(), r.Verification.Summary, s.Revision, count(s.Keys, "key", "keys")),
		fmt.Sprintf("this makes a NEW cluster of %s. Stop every member of the old one first; to replace one member of a living cluster, don't restore: `kvd member replace`",
			strings.Join(r.Recipe.names(), ", ")),
	}
	if r.Verification.Verdict != Restorable {
		out = append(out, "the hash is skipped: "+r.loss())
	}
	if n := len(r.Recipe.Members); n%2 == 0 {
		out = append(out, fmt.Sprintf("%d members bear no more failures than %d", n, n-1))
	}
	out = append(out, r.tokenNotes()...)
	out = append(out, r.bumpNotes()...)
	if v, err := parseVersion(s.StorageVersion); err == nil {
		// etcd 3.6 compares it with its own (storage/schema, Validate); 3.5 does not know it, and starts.
		out = append(out, fmt.Sprintf("its storage version is %d.%d, and the servers have to be etcd %d.%d or later: 3.6 ends on a newer one, and 3.5 starts without knowing what it has", v.Major, v.Minor, v.Major, v.Minor))
	}
	out = append(out, r.loopbackNotes()...)
	for _, f := range r.source.notes() {
		switch {
		case f.Class == "alarm_inside" && r.Recipe.ClearAlarms:
			f.Message = "left out: " + f.Message
		case f.Class == "alarm_inside":
			f.Message += "; --clear-alarms leaves it out"
		}
		out = append(out, f.Message)
	}
	return out
}

// bumpNotes say how far clients may be ahead of the file, and what becomes of them.
//
// A client that saw revision 5000 and asks for what comes after it gets nothing
// from a cluster that went back to 1000, no error either, until that has reached
// 5000 again with other changes. Kubernetes' API servers and everything that
// watches them do that. Where the revision is above all that was ever seen and all
// up to there counts as compacted, the same request is refused as compacted, and
// the client lists anew.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/mvcc/watchable_store.go (watch, syncWatchers).
func (r *Restore) bumpNotes() []string {
	s := r.Verification.Content
	age, unknown := r.age()
	ahead := int64(age.Seconds()) * AutoBumpRate
	old := fmt.Sprintf("the snapshot was taken %s ago: at %d revisions a second clients may be %d ahead of it", roughly(age), AutoBumpRate, ahead)
	if unknown != "" {
		old = fmt.Sprintf("how old the snapshot is, is not known (%s): at %d revisions a second clients may be %d ahead of it for each hour", unknown, AutoBumpRate, AutoBumpRate*3600)
	}
	if to := r.bumpedTo(); to > 0 {
		out := []string{fmt.Sprintf("the revision goes from %d to %d, and all up to there counts as compacted: what watched before is told so and lists anew. Older revisions can no longer be read", s.Revision, to)}
		by := r.Recipe.BumpRevision
		switch {
		case unknown != "":
			out = append(out, fmt.Sprintf("%s; the %d that it is lifted by last for %s", old, by, roughly(time.Duration(by/AutoBumpRate)*time.Second)))
		case ahead > by:
			out = append(out, fmt.Sprintf("%s, more than the %d it is lifted by: give --bump-revision %d or more", old, by, ahead+ahead/10))
		}
		return out
	}
	who := "clients that watch"
	if r.source.kubernetes || r.source.openshift {
		who = "Kubernetes"
	}
	return []string{
		fmt.Sprintf("the revision goes back to %d; %s", s.Revision, old),
		fmt.Sprintf("%s would then wait without an error for changes that never come, and act on old caches: --bump-revision auto lifts the revision by %d and marks all before as compacted, so that they list anew", who, AutoBump),
	}
}

// age is how long ago the save of the snapshot began, in whole seconds, rounded up.
// Only its manifest knows: a file's own time is that of the copy. Where that is not
// known the second value says why.
func (r *Restore) age() (time.Duration, string) {
	m := r.source.manifest
	if m == nil || m.StartedAt.IsZero() {
		return 0, "no manifest of it lies beside it, and the time of a file may be that of a copy"
	}
	age := time.Since(m.StartedAt)
	if age < 0 {
		return 0, "by its manifest it was taken at " + m.StartedAt.Format(time.RFC3339) + ", which is in the future here"
	}
	return age.Truncate(time.Second) + time.Second, ""
}

// roughly shows a duration by its largest unit or two.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
	return d.Round(time.Second).String()
}

// describe says how a member is started.
func (r *Restore) describe(m *memberRestore) RestoreMember {
	out := RestoreMember{Name: m.Name, ID: m.ID, DataDir: m.data.path, WALDir: m.wal.path}
	clients := r.clientURLs(m)
	flags := [][2]string{
		{"name", m.Name}, {"data-dir", m.data.path}, {"wal-dir", m.wal.path},
		{"initial-advertise-peer-urls", strings.Join(m.PeerURLs, ",")}, {"listen-peer-urls", strings.Join(listenOn(m.PeerURLs), ",")},
		{"advertise-client-urls", strings.Join(clients, ",")}, {"listen-client-urls", strings.Join(listenOn(clients), ",")},
		{"initial-cluster", r.Recipe.InitialCluster()}, {"initial-cluster-token", r.Recipe.Token},
		// Ignored where there are data. On an empty folder, given by mistake, a
		// start fails then instead of beginning an empty cluster.
		{"initial-cluster-state", "existing"},
	}
	var words []string
	for _, f := range flags {
		if f[1] != "" {
			words = append(words, quoteWord("--"+f[0]+"="+f[1]))
		}
	}
	out.Start, out.Etcd = "kvd serve "+strings.Join(words, " "), "etcd "+strings.Join(words, " ")
	return out
}

// clientURLs are where clients found the member of that name before, else the
// usual port of the hosts where its peers find it.
func (r *Restore) clientURLs(m *memberRestore) []string {
	members := r.Verification.Content.Members
	for _, old := range members {
		if old.Name == m.Name && len(old.ClientURLs) > 0 && slices.Equal(old.PeerURLs, m.PeerURLs) {
			return old.ClientURLs
		}
	}
	var out []string
	for _, p := range m.PeerURLs {
		if u, err := url.Parse(p); err == nil {
			u.Host = net.JoinHostPort(u.Hostname(), "2379")
			out = append(out, u.String())
		}
	}
	return out
}

// listenOn is where to listen for URLs that are advertised: etcd listens on
// addresses, so that a name becomes "everywhere".
func listenOn(urls []string) []string {
	var out []string
	for _, s := range urls {
		if u, err := url.Parse(s); err == nil && u.Port() != "" && net.ParseIP(u.Hostname()) == nil && u.Hostname() != "localhost" {
			u.Host = net.JoinHostPort("0.0.0.0", u.Port())
			s = u.String()
		}
		out = append(out, s)
	}
	return out
}

// quoteWord makes one word of a shell's command line.
func quoteWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || strings.ContainsRune("'\"$`\\&|;<>()*?[]#~!{}", r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// next is what to do, in order: what Kubernetes needs before the restore, then what
// comes after it.
func (r *Restore) next() []string {
	var out []string
	k3s := r.source.kubernetes && r.source.k3s // /bootstrap/ by itself may be anybody's
	if k3s {
		out = append(out, "k3s and RKE2 keep files of their own beside etcd's, and this does not make them: give the snapshot to `k3s server --cluster-reset --cluster-reset-restore-path=FILE` (rke2 likewise), with the server's token of then, which /bootstrap/ in it is encrypted with",
			"where the etcd is not theirs but your own (--datastore-endpoint): stop all k3s servers, and restore it as follows")
	}
	if r.source.openshift {
		out = append(out, "OpenShift makes the static pods of etcd and the API servers anew to match: give the folder of the backup, with the snapshot and its static_kuberesources archive, to `/usr/local/bin/cluster-restore.sh DIR` on one control plane host, and start nothing by hand")
	}
	kubeadm := r.source.kubernetes && !k3s && !r.source.openshift
	if kubeadm {
		out = append(out,
			"kubeadm, before, on every control plane node: move etcd.yaml and kube-apiserver.yaml out of /etc/kubernetes/manifests",
			"kubeadm, before: wait until both containers are gone, then move /var/lib/etcd away")
	}
	for _, m := range r.members {
		owner := ""
		if os.Geteuid() == 0 {
			owner = " (its folders must belong to the server's user: chown -R)"
		}
		where := "its log is in the data folder, so it must have no --wal-dir"
		if m.wal.path != "" {
			where = "without --wal-dir=" + m.wal.path + " it would begin a new log"
		}
		out = append(out, fmt.Sprintf("then start %s%s: %s", m.Name, owner, r.describe(m).Start),
			fmt.Sprintf("stock etcd takes the same flags; %s; add certificates, quota and the like as before", where))
	}
	if len(r.members) < len(r.Recipe.Members) {
		out = append(out, fmt.Sprintf("restore the other members (of %s) on their hosts from the same file, with the same plan; a quorum must run before any of them is ready", strings.Join(r.Recipe.names(), ", ")))
	}
	out = append(out, "then `kvd status --wait` shows when the cluster is well")
	if kubeadm {
		out = append(out,
			"kubeadm, instead of starting it so: restore on each node with --name as etcd.yaml has it and --data-dir /var/lib/etcd",
			"kubeadm, then: move etcd.yaml back on all, and kube-apiserver.yaml once `kvd status` is well",
			"kubeadm, last: restart controller managers, schedulers and kubelets, which hold what they saw before")
	}
	return out
}
