package diagnose

import (
	"fmt"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/snapshot"
)

// content is what fills the file of the member whose keys were looked at.
type content struct {
	m         cluster.Member
	source    string // of what was read
	size      int64
	live      int64
	history   int64
	keys      int64
	head      int64
	compacted int64   // revision of the last compaction, 0 for never
	revisions int64   // kept: the head less the oldest that can be read
	perKey    float64 // of them for each live key
}

// emptyFile is what a file without keys takes, in bytes: two meta pages, the root,
// and two for etcd's own buckets.
const emptyFile = 5 * 4096

// content splits the file of the member that was read: sizes are the server's own,
// live bytes are estimated from the sample, and the rest of what is in use is history.
func (in *Input) content() (content, bool) {
	if in.Keys == nil {
		return content{}, false
	}
	for _, m := range in.view().Answered() {
		if m.Label() != in.Keys.Member {
			continue
		}
		c := content{m: m, source: "keys read from " + name(m), size: m.Status.DBSize, keys: in.Keys.Keys, head: in.Keys.Revision,
			compacted: compactedAt(in.Keys.Oldest), revisions: max(0, in.Keys.Revision-in.Keys.Oldest)}
		used := max(0, m.Status.DBInUse-emptyFile)
		c.live = min(int64(in.Keys.InPages.Bytes), used)
		c.history = max(0, used-c.live-in.leaseBytes())
		if c.revisions == 0 {
			c.history = 0
		}
		c.perKey = float64(c.revisions) / float64(max(1, c.keys))
		return c, true
	}
	return content{}, false
}

// leaseBytes is about what the leases take in a file: a record of its own each, of 44
// bytes with all that is kept of it where pages are full, and of 79 where they are half
// empty, as they are while leases are appended.
func (in *Input) leaseBytes() int64 {
	if in.Leases == nil {
		return 0
	}
	return 62 * int64(in.Leases.Total)
}

// explainFull adds to what explains a full file that leases fill it.
func (in *Input) explainFull(by []string, m cluster.Member) []string {
	if float64(in.leaseBytes()) >= in.Limits.ShareRatio*float64(m.Status.DBSize) {
		return append(by, "KVD-LEASE-003")
	}
	return by
}

// contents are all that were read: a member's, and those of files.
func (in *Input) contents() []content {
	var out []content
	if c, ok := in.content(); ok {
		out = append(out, c)
	}
	for _, s := range in.stored() {
		if s.v.Content != nil && s.v.Verdict != snapshot.NotRestorable {
			out = append(out, contentOf(s.path, s.v.Content))
		}
	}
	return out
}

func (c content) evidence(in *Input) []Evidence {
	of := func(what string, v int64, u Unit) Evidence {
		return Evidence{What: what, Value: float64(v), Unit: u, Source: c.source, At: in.At}
	}
	return []Evidence{
		of("file", c.size, Bytes), of("free pages", c.size-c.m.Status.DBInUse, Bytes), of("live data", c.live, Bytes), of("history", c.history, Bytes),
		of("given back by compaction and defragmentation", max(0, c.size-c.live-emptyFile), Bytes), of("revisions kept", c.revisions, Count),
		of("live keys", c.keys, Count), of("head revision", c.head, Index), of("last compaction", c.compacted, Index),
	}
}

// compactedAt is the revision of the last compaction, 0 for never.
func compactedAt(oldest int64) int64 {
	if oldest <= 1 {
		return 0
	}
	return oldest
}

// checkHistory looks for history that nobody compacts. kube-apiserver compacts
// every 5 minutes what is older than 5 minutes, and leaves a marker; etcd's own
// periodic compaction begins one whole period after each start; its revision mode
// looks every 5 minutes (server/etcdserver/api/v3compactor).
func checkHistory() Check {
	return Check{
		Name: "history", Asks: "does somebody compact?", IDs: []string{"KVD-SPACE-005"}, Needs: []Need{NeedContent},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			var good []string
			for _, c := range in.contents() {
				last := "nothing was ever compacted"
				if c.compacted > 0 {
					last = fmt.Sprintf("the last compaction was to revision %d", c.compacted)
				}
				sev, piles := in.historyPiles(c)
				if !piles {
					if ago, known := in.compactedAgo(c); known {
						last += fmt.Sprintf(", %s ago", Seconds.Show(ago))
					}
					good = append(good, fmt.Sprintf("%s kept for %s; %s", counted(c.revisions, "revision"), counted(c.keys, "key"), last))
					continue
				}
				out = append(out, in.uncompacted(c, sev, last))
			}
			return out, list(good)
		},
	}
}

// keptByCompact is how many revisions kvd compact leaves at least where nobody says how
// many (ProposeTarget in pkg/ops/compact_target.go).
const keptByCompact = 1000

// compact is the command that takes the history away: of few revisions the usual one
// would leave them all.
func (c content) compact() string {
	if c.revisions <= keptByCompact {
		return "kvd compact --to head  # without it a thousand revisions stay, more than there are; watchers that lag have to begin anew"
	}
	return "kvd compact --step 5000 --pause 1s"
}

// recent reports that all history that is kept is younger than three compactions of
// kube-apiserver: by the clock of the Leases, or else by the rate of writes between the
// samples.
func (in *Input) recent(c content) bool {
	if c.m.ID == 0 {
		return false // a file has neither
	}
	if m := in.Compactor; m != nil && m.Kept > 0 {
		return m.Kept.Seconds() < in.Limits.MarkerAge
	}
	old, ok := in.before(c.m.ID)
	if !ok || in.interval() <= 0 {
		return false
	}
	rate := float64(c.m.Status.Revision-old.Status.Revision) / in.interval().Seconds()
	return float64(c.revisions) < rate*in.Limits.MarkerAge
}

// compactedAgo is when the member that was read compacted last, where its metrics tell: a
// start makes them forget, and before etcd 3.5 there are none of it.
func (in *Input) compactedAgo(c content) (seconds float64, known bool) {
	if in.Now == nil || in.Now.Metrics[c.m.ID] == nil || c.compacted == 0 {
		return 0, false
	}
	at, ok := in.Now.Metrics[c.m.ID].Value(metrics.CompactedLast, nil)
	return max(0, float64(in.At.Unix())-at), ok && at > 0
}

// compacts reports that somebody does: what is kept then is as much as was asked for.
func (in *Input) compacts(c content) bool {
	ago, known := in.compactedAgo(c)
	return known && ago < in.Limits.NobodyCompacts
}

func (in *Input) uncompacted(c content, sev Severity, last string) Finding {
	f := Finding{ID: "KVD-SPACE-005", Severity: sev, Subject: "cluster", Evidence: c.evidence(in), ExplainedBy: []string{"KVD-SPACE-009"},
		Summary: fmt.Sprintf("history piles up: %s for %s, %.0f for each; %s", counted(c.revisions, "revision"), counted(c.keys, "live key"), c.perKey, last),
		Remedy: []string{c.compact(), "kvd defrag",
			"see why nobody does: kube-apiserver's --etcd-compaction-interval, or etcd's --auto-compaction-retention (periodic begins a whole period after each start)"}}
	if ago, _ := in.compactedAgo(c); in.compacts(c) {
		f.Summary += fmt.Sprintf(", %s ago", Seconds.Show(ago))
		f.Remedy[2] = "see what has so much kept: etcd's --auto-compaction-retention, or whoever else compacts"
	}
	if c.m.ID == 0 {
		f.Subject = c.source
	} else if m := in.Compactor; m != nil && m.ModRevision > 0 {
		f.Summary += fmt.Sprintf("; kube-apiserver's %s was last written at revision %d, %s ago", m.Key, m.ModRevision, counted(c.head-m.ModRevision, "revision"))
		f.Evidence = append(f.Evidence, Evidence{What: m.Key + " written at", Value: float64(m.ModRevision), Unit: Index, Source: c.source, At: in.At})
	}
	return f
}

// historyPiles is a warning where history is much by any measure, and worth a
// remark where nothing was ever compacted and there would have been something. What
// was written since the last compactions is no history that piles up, however much, and
// many revisions of few keys, which take little, are none where somebody compacts: etcd's
// revision mode keeps as many as it is told, as Cilium's 25,000.
func (in *Input) historyPiles(c content) (Severity, bool) {
	l := in.Limits
	share := float64(c.history) / float64(max(1, c.size))
	big := float64(c.history) >= l.HistoryBytes
	if q := c.m.Status.EffectiveQuota(); q > 0 {
		big = big && float64(c.history) >= l.HistoryQuota*float64(q)
	}
	many := float64(c.revisions) >= l.HistoryFrom && c.perKey >= l.HistoryPerKey && !in.compacts(c)
	switch {
	case share >= l.HistoryRatio && c.m.ID != 0 && in.view().HasAlarm(cluster.AlarmNoSpace),
		float64(c.revisions) >= l.HistoryRevs,
		!in.recent(c) && (share >= l.HistoryRatio && big || many):
		return Warning, true
	case c.compacted == 0 && float64(c.revisions-c.keys) >= l.NeverCompacted: // each live key keeps one
		return Info, true
	}
	return "", false
}
