package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/metrics"
)

// scrapeTimeout and, where there are no metrics, statusTimeout are together less than the
// second between two rows, so that a member that does not answer costs its own figures
// and no row.
const (
	scrapeTimeout = 700 * time.Millisecond
	statusTimeout = 200 * time.Millisecond
)

// scraper reads the members' metrics for each row. Where a member serves none, its
// status tells its sizes at least. It is for one goroutine.
type scraper struct {
	http    *http.Client
	rec     *recorder
	targets []*target
}

// target is one member and what it said.
type target struct {
	name, address string
	status        *cluster.MemberClient // where there are no metrics
	first, last   *metrics.Sample       // first: where the measurement began
	total         result.MemberTotals
	earlier       result.Work // of the member's processes before this one
	restarted     bool        // since the row before
	quota         int64       // bytes, 0: not known
	leader        bool
	defragging    bool
	compacted     float64
	fresh         bool // nothing was seen before
	missed        int  // times in a row that it said nothing
}

func newScraper(client *cluster.Client, v cluster.View, rec *recorder, o Options) *scraper {
	s := &scraper{http: client.HTTPClient(), rec: rec}
	for _, m := range v.Members {
		if m.Endpoint == "" {
			continue
		}
		t := &target{name: m.Name, fresh: true, address: o.MetricsURLs.For(m.Name, cluster.FormatID(m.ID), m.Endpoint)}
		t.total.Name = m.Name
		t.status, _ = client.Member(m.ID) // there is one for each member that has an endpoint
		if q := m.Status.EffectiveQuota(); q > 0 {
			t.quota = q
		}
		s.targets = append(s.targets, t)
	}
	return s
}

// quotas fills in the quotas that only metrics tell: before 3.6, a status has none.
func (s *scraper) quotas(of []result.Member) {
	for i := range of {
		for _, t := range s.targets {
			if t.name == of[i].Name && of[i].Quota == 0 {
				of[i].Quota = t.quota
			}
		}
	}
}

func (s *scraper) close() { s.http.CloseIdleConnections() }

// scrape asks all members at once. measuring says that the row belongs to the
// measurement.
func (s *scraper) scrape(ctx context.Context, measuring bool) []result.MemberRow {
	rows := make([]*result.MemberRow, len(s.targets))
	var wg sync.WaitGroup
	for i, t := range s.targets {
		wg.Go(func() { rows[i] = t.ask(ctx, s.http, measuring) })
	}
	wg.Wait()
	var out []result.MemberRow
	for i, row := range rows {
		s.hear(s.targets[i], row != nil)
		if row != nil {
			if s.targets[i].restarted {
				s.rec.event("member_restart", s.targets[i].name+" was restarted")
			}
			s.notice(s.targets[i], row)
			out = append(out, *row)
		}
	}
	return out
}

// silentAfter is how often a member must say nothing to be called silent: once is
// what a busy machine does.
const silentAfter = 2

// hear notes that a member has fallen silent, or is back.
func (s *scraper) hear(t *target, answered bool) {
	switch {
	case answered && t.missed >= silentAfter:
		s.rec.event("member_back", t.name+" answers again")
	case !answered && t.missed == silentAfter-1 && !t.fresh:
		s.rec.event("member_silent", t.name+" does not answer")
	}
	if t.missed++; answered {
		t.missed = 0
	}
}

// ask returns nil where the member says nothing.
func (t *target) ask(ctx context.Context, client *http.Client, measuring bool) *result.MemberRow {
	within, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	sample, err := metrics.Fetch(within, client, t.address)
	if err != nil || !sample.Has(metrics.DBSize) {
		return t.askStatus(ctx)
	}
	row := &result.MemberRow{Name: t.name}
	value := func(name string) float64 { v, _ := sample.Value(name, nil); return v }
	row.DBSize, row.DBInUse = int64(value(metrics.DBSize)), int64(value(metrics.DBInUse))
	row.Memory, row.Pending = int64(value(metrics.ResidentMemory)), value(metrics.ProposalsPending)
	row.Leader, row.Defragging = value(metrics.IsLeader) == 1, value(metrics.DefragInflight) > 0
	if q := value(metrics.QuotaBytes); q > 0 {
		t.quota = int64(q)
	}
	from := t.last
	if t.restarted = from != nil && sample.Restarted(from); t.restarted {
		from = &metrics.Sample{At: from.At} // its counters began at 0 again; what came after the last look at the old ones is lost
	}
	if from != nil {
		row.Work = workIn(metrics.Between(from, sample))
	}
	t.last = sample
	t.add(sample, row, measuring)
	return row
}

func (t *target) askStatus(ctx context.Context) *result.MemberRow {
	if t.status == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout) // of its own: metrics behind a firewall have used up theirs
	defer cancel()
	st, err := t.status.Status(ctx)
	if err != nil {
		return nil
	}
	return &result.MemberRow{Name: t.name, DBSize: st.DBSize, DBInUse: st.DBInUse, Leader: st.Leader != 0 && st.Leader == t.status.ID()}
}

// workIn is what a member did between two samples.
func workIn(d metrics.Delta) result.Work {
	grown := func(name string) float64 { v, _ := d.Counter(name, nil); return v }
	p99 := func(name string) float64 {
		h, ok := d.Histogram(name, nil)
		if !ok || h.Count == 0 {
			return 0
		}
		return h.Quantile(0.99)
	}
	return result.Work{
		CPU: grown(metrics.CPUSeconds), FsyncP99: p99(metrics.WALFsync), CommitP99: p99(metrics.BackendCommit),
		LeaderChanges: grown(metrics.LeaderChanges), SlowApplies: grown(metrics.SlowApplies), WALBytes: grown(metrics.WALBytes),
		PeerBytes: grown(metrics.PeerSentBytes), ClientBytes: grown(metrics.ClientSentBytes), PutBytes: grown(metrics.PutBytes),
	}
}

// add brings the member's totals up to this sample.
func (t *target) add(sample *metrics.Sample, row *result.MemberRow, measuring bool) {
	if !measuring || t.first == nil {
		t.first = sample
		t.total.DBBefore, t.total.InUseBefore, t.total.MemoryPeak = row.DBSize, row.DBInUse, 0
	}
	m := &t.total
	switch {
	case !measuring:
		t.earlier = result.Work{}
	case t.restarted:
		t.earlier, t.first = m.Work, &metrics.Sample{At: sample.At}
	}
	m.DBAfter, m.InUseAfter, m.MemoryPeak = row.DBSize, row.DBInUse, max(m.MemoryPeak, row.Memory)
	m.Work = t.earlier.And(workIn(metrics.Between(t.first, sample)))
}

// notice tells what divides the run: a new leader, a compaction, a
// defragmentation that began.
func (s *scraper) notice(t *target, row *result.MemberRow) {
	if row.Leader && !t.leader && !t.fresh {
		s.rec.event("leader_change", t.name+" leads now")
	}
	t.leader = row.Leader
	if t.last != nil {
		if rev, _ := t.last.Value(metrics.CompactRevision, nil); rev != t.compacted {
			if !t.fresh && !s.seen(t, rev) {
				s.rec.event("compaction", fmt.Sprintf("to revision %.0f", rev))
			}
			t.compacted = rev
		}
	}
	if row.Defragging && !t.defragging {
		s.rec.event("defrag", t.name)
	}
	t.defragging = row.Defragging
	t.fresh = false
}

// seen reports that another member has told of this compaction.
func (s *scraper) seen(but *target, rev float64) bool {
	for _, o := range s.targets {
		if o != but && o.compacted == rev {
			return true
		}
	}
	return false
}

// deserted says who is silent where the last row tells that the cluster is gone:
// what ended in it had no answer, and no member leads. It is empty otherwise. One
// member of three that is gone has others that lead and answer.
func (s *scraper) deserted(last result.Row) string {
	for _, op := range last.Ops {
		if op.Done() {
			return ""
		}
	}
	answered := map[string]bool{}
	for _, m := range last.Members {
		if m.Leader {
			return ""
		}
		answered[m.Name] = true
	}
	if len(last.Ops) == 0 && len(answered) > 0 {
		return "" // nothing was waited for
	}
	var silent []string
	for _, t := range s.targets {
		if !answered[t.name] {
			silent = append(silent, t.name)
		}
	}
	if len(silent) == 0 {
		return "no member led"
	}
	return "no member led; silent: " + strings.Join(silent, ", ")
}

// usage is the highest share of its quota that a member's file has.
func (s *scraper) usage(rows []result.MemberRow) (name string, share float64) {
	for _, row := range rows {
		for _, t := range s.targets {
			if used := float64(row.DBSize) / float64(max(t.quota, 1)); t.name == row.Name && t.quota > 0 && used > share {
				name, share = t.name, used
			}
		}
	}
	return name, share
}

// left is how many bytes may be written until the next look, so that no member's file
// gets larger than this share of its quota. Of the pages that are free in it half
// are counted: those that were freed last can't be used yet, and large values want
// pages that lie together.
func (s *scraper) left(rows []result.MemberRow, stopAt float64) (bytes int64, bounded bool) {
	for _, row := range rows {
		for _, t := range s.targets {
			if t.name != row.Name || t.quota <= 0 {
				continue
			}
			if n := int64(stopAt*float64(t.quota)) - row.DBSize + (row.DBSize-row.DBInUse)/2; !bounded || n < bytes {
				bytes, bounded = n, true
			}
		}
	}
	return bytes, bounded
}

func (s *scraper) totals() []result.MemberTotals {
	var out []result.MemberTotals
	for _, t := range s.targets {
		if t.last != nil {
			out = append(out, t.total)
		}
	}
	return out
}
