package diagnose

import (
	"fmt"

	"kvd/pkg/ops/cluster"
)

// content is what fills the file of the member whose keys were looked at.
type content struct {
	m         cluster.Member
	size      int64
	live      int64
	history   int64
	revisions int64   // kept: the head less the oldest that can be read
	perKey    float64 // of them for each live key
}

// emptyFile is what a file without keys takes, in bytes: two meta pages, the root,
// and two for etcd's own buckets.
const emptyFile = 5 * 4096

// content splits a file: sizes are the server's own, live bytes are estimated from
// the sample, and the rest of what is in use is history.
func (in *Input) content() (content, bool) {
	for _, m := range in.view().Answered() {
		if m.Label() != in.Keys.Member {
			continue
		}
		c := content{m: m, size: m.Status.DBSize, revisions: max(0, in.Keys.Revision-in.Keys.Oldest)}
		used := max(0, m.Status.DBInUse-emptyFile)
		c.live = min(int64(in.Keys.InPages.Bytes), used)
		c.history = used - c.live
		if c.revisions == 0 {
			c.history = 0
		}
		c.perKey = float64(c.revisions) / float64(max(1, in.Keys.Keys))
		return c, true
	}
	return content{}, false
}

func (c content) evidence(in *Input) []Evidence {
	who := "keys read from " + name(c.m)
	return []Evidence{
		status(c.m, "file", float64(c.size), Bytes), status(c.m, "free pages", float64(c.size-c.m.Status.DBInUse), Bytes),
		{What: "live data", Value: float64(c.live), Unit: Bytes, Source: who, At: in.At},
		{What: "history", Value: float64(c.history), Unit: Bytes, Source: who, At: in.At},
		{What: "given back by compaction and defragmentation", Value: float64(max(0, c.size-c.live-emptyFile)), Unit: Bytes, Source: who, At: in.At},
		{What: "revisions kept", Value: float64(c.revisions), Unit: Count, Source: who, At: in.At},
		{What: "live keys", Value: float64(in.Keys.Keys), Unit: Count, Source: who, At: in.At},
		{What: "head revision", Value: float64(in.Keys.Revision), Unit: Index, Source: who, At: in.At},
		{What: "last compaction", Value: float64(compactedAt(in.Keys.Oldest)), Unit: Index, Source: who, At: in.At},
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
		Name: "history", Asks: "does somebody compact?", IDs: []string{"KVD-SPACE-005"}, Needs: []Need{NeedView, NeedKeys},
		Look: func(in *Input) ([]Finding, string) {
			c, ok := in.content()
			if !ok {
				return nil, ""
			}
			last := "nothing was ever compacted"
			if r := compactedAt(in.Keys.Oldest); r > 0 {
				last = fmt.Sprintf("the last compaction was to revision %d", r)
			}
			good := fmt.Sprintf("%s kept for %s; %s", counted(c.revisions, "revision"), counted(in.Keys.Keys, "key"), last)
			sev, is := in.historyPiles(c)
			if !is {
				return nil, good
			}
			f := Finding{ID: "KVD-SPACE-005", Severity: sev, Subject: "cluster", Evidence: c.evidence(in),
				Summary: fmt.Sprintf("history piles up: %s for %s, %.0f for each; %s", counted(c.revisions, "revision"), counted(in.Keys.Keys, "live key"), c.perKey, last),
				Remedy: []string{"kvd compact --step 5000 --pause 1s", "kvd defrag",
					"see why nobody does: kube-apiserver's --etcd-compaction-interval, or etcd's --auto-compaction-retention (periodic begins a whole period after each start)"}}
			if m := in.Compactor; m != nil {
				f.Summary += fmt.Sprintf("; kube-apiserver's %s was last written at revision %d, %s ago", m.Key, m.ModRevision, counted(in.Keys.Revision-m.ModRevision, "revision"))
				f.Evidence = append(f.Evidence, Evidence{What: m.Key + " written at", Value: float64(m.ModRevision), Unit: Index, Source: "keys read from " + name(c.m), At: in.At})
			}
			return []Finding{f}, ""
		},
	}
}

// historyPiles is a warning where history is much by any measure, and worth a
// remark where nothing was ever compacted and there would have been something.
func (in *Input) historyPiles(c content) (Severity, bool) {
	l := in.Limits
	used, _ := c.m.Status.UsageRatio()
	share := float64(c.history) / float64(max(1, c.size))
	full := used >= l.QuotaWarning || in.view().HasAlarm(cluster.AlarmNoSpace)
	switch {
	case share >= l.HistoryRatio && (full || float64(c.history) >= l.HistoryBytes),
		float64(c.revisions) >= l.HistoryRevs,
		float64(c.revisions) >= l.HistoryFrom && c.perKey >= l.HistoryPerKey:
		return Warning, true
	case compactedAt(in.Keys.Oldest) == 0 && float64(c.revisions) >= l.NeverCompacted:
		return Info, true
	}
	return "", false
}
