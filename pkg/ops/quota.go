package ops

import (
	"context"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/progress"
)

// QuotaOptions says how closely to look.
type QuotaOptions struct {
	Look    keyspace.LookOptions
	Content bool    // look into the key space too, not only at the members
	WarnAt  float64 // share of its quota from which a member is called nearly full
}

// DefaultQuotaOptions returns what `kvd quota` does when told nothing.
func DefaultQuotaOptions() QuotaOptions {
	return QuotaOptions{Look: keyspace.DefaultLookOptions(), Content: true, WarnAt: fullRatio}
}

// QuotaReport says how full a cluster is, and of what.
type QuotaReport struct {
	At             time.Time       `json:"at"`
	ClusterID      string          `json:"cluster_id"`
	Source         string          `json:"source,omitempty"`
	EffectiveQuota *int64          `json:"effective_quota_bytes"` // the smallest; null where none is known or all are disabled
	LimitedBy      string          `json:"limited_by,omitempty"`  // name of the member with it, or its ID
	Usage          *float64        `json:"usage_ratio"`           // of the fullest member
	Fullest        string          `json:"fullest_member,omitempty"`
	LargestPut     int64           `json:"largest_put_bytes"` // key and value
	Members        []QuotaMember   `json:"members"`
	Alarms         []cluster.Alarm `json:"alarms"`
	Findings       []Finding       `json:"findings"`
	File           *FileContent    `json:"file,omitempty"`
	Content        *keyspace.Usage `json:"content,omitempty"`

	view cluster.View
}

// View returns what the report was made from.
func (r QuotaReport) View() cluster.View { return r.view }

// QuotaMember is a member in a QuotaReport. Names are those of `kvd status`.
type QuotaMember struct {
	ID            string       `json:"id"`
	Name          string       `json:"name"`
	Endpoint      string       `json:"endpoint"`
	Role          string       `json:"role"`
	Version       string       `json:"version,omitempty"`
	DBSize        *int64       `json:"db_size_bytes,omitempty"`
	DBInUse       *int64       `json:"db_in_use_bytes,omitempty"`
	DBFree        *int64       `json:"db_free_bytes,omitempty"`
	Quota         *int64       `json:"quota_bytes,omitempty"`
	QuotaDisabled bool         `json:"quota_disabled,omitempty"`
	QuotaAssumed  bool         `json:"quota_assumed,omitempty"`
	Usage         *float64     `json:"usage_ratio,omitempty"`
	Headroom      *int64       `json:"headroom_bytes,omitempty"`
	LargestPut    *int64       `json:"largest_put_bytes,omitempty"`
	Alarms        []string     `json:"alarms"`
	Error         *MemberError `json:"error,omitempty"`
}

// MemberError is why a member says nothing.
type MemberError struct {
	Cause   string `json:"cause"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// FileContent splits a file into what fills it: that of the member that was read,
// or, where another's is larger by much, that one's, for live keys are the same in
// both. Size, in use and free are exact. Live is what the live keys take once they are
// packed, estimated as Content says. The rest of what is in use is history, older
// revisions, together with what compaction left of pages that still hold a live
// record.
type FileContent struct {
	Member       string            `json:"member"`
	DBSize       int64             `json:"db_size_bytes"`
	InUse        int64             `json:"db_in_use_bytes"`
	Free         int64             `json:"db_free_bytes"`
	Live         keyspace.Estimate `json:"live"`
	History      keyspace.Estimate `json:"history"`
	Leases       *LeaseContent     `json:"leases,omitempty"` // absent where they take less than 1 % of what is in use
	Other        int64             `json:"other_bytes"`      // etcd's own few pages, and what no kept revision can explain: partly filled ones
	Reclaimable  keyspace.Estimate `json:"reclaimable"`      // by a compaction to the head and a defragmentation
	FreeRatio    float64           `json:"free_ratio"`
	LiveRatio    float64           `json:"live_ratio"`
	HistoryRatio float64           `json:"history_ratio"`
	InUseRatio   float64           `json:"in_use_ratio"`
	// Revisions are those kept: the head revision less the oldest. A revision
	// may have changed more than one key.
	Revisions int64 `json:"revisions_kept"`
	// HistoryPerKey is how many revisions are kept for each live key.
	HistoryPerKey float64 `json:"revisions_per_live_key"`
	LastCompact   int64   `json:"last_compaction_revision"` // 0: never
}

// fixedPages is what an empty database takes: two meta pages, the free list, the
// root, and a page of the small buckets. 20 KiB is what etcd 3.7 reports for a
// new member.
const fixedPages = 5 * 4096

// Quota looks at a cluster's members and, if asked to, at what one of them
// stores. The report is complete as far as anything could be read, beside the
// error that says what could not.
func Quota(ctx context.Context, client *cluster.Client, view cluster.View, o QuotaOptions, sink progress.Sink) (QuotaReport, error) {
	var err error
	var usage *keyspace.Usage
	var read cluster.Member
	if o.Content {
		if fresh, ferr := trueSizes(ctx, client, view); ferr == nil {
			view = fresh
		}
		usage, read, err = lookAt(ctx, client, view, o.Look, sink)
	}
	r := newQuotaReport(view)
	if usage != nil {
		r.Content = usage
		// Sizes are refreshed at a commit, at most 100 ms after the last write.
		if o.Look.Prefix == "" {
			f := fileContent(fullerThan(read, view), *usage, countLeases(ctx, client, read))
			r.File = &f
		}
	}
	r.Findings = quotaFindings(view, r, o)
	return r, err
}

// lookAt looks into one member, the one that minds least; where it can't be
// reached, into the next.
func lookAt(ctx context.Context, client *cluster.Client, view cluster.View, o keyspace.LookOptions, sink progress.Sink) (*keyspace.Usage, cluster.Member, error) {
	var last error
	for _, m := range view.Readers() {
		mc, err := client.Member(m.ID)
		if err != nil {
			return nil, m, err
		}
		if o.Exact {
			sink.Event(progress.Event{Op: "quota", Subject: m.Label(), Warning: true, Note: "--exact reads every live value, at most the " +
				binary(m.Status.DBInUse) + " in use, from " + m.Label() + " at 64 MiB/s or less"})
		}
		u, err := keyspace.Look(ctx, mc, o, sink)
		if err == nil {
			return &u, m, nil
		}
		last = err
		if fault.KindOf(err) != fault.Unavailable || ctx.Err() != nil {
			break
		}
	}
	if last == nil {
		last = view.VotersErr("quota")
	}
	if last == nil {
		last = &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoEndpoint, Op: "quota", Msg: "no voter answers, so what is stored cannot be read"}
	}
	return nil, cluster.Member{}, last
}

func newQuotaReport(v cluster.View) QuotaReport {
	r := QuotaReport{At: v.At, ClusterID: cluster.FormatID(v.ID), Source: v.Source, Alarms: v.Alarms, view: v,
		Members: []QuotaMember{}, Findings: []Finding{}}
	if r.Alarms == nil {
		r.Alarms = []cluster.Alarm{}
	}
	if q := v.EffectiveQuota(); q > 0 {
		r.EffectiveQuota = &q
	}
	room := map[uint64]Headroom{}
	for _, h := range HeadroomOf(v) {
		room[h.Member.ID] = h
	}
	for _, m := range v.Members {
		r.Members = append(r.Members, quotaMember(v, m, room[m.ID]))
		if u, ok := m.Status.UsageRatio(); ok && (r.Usage == nil || u > *r.Usage) {
			r.Usage, r.Fullest = &u, nameOrID(m)
		}
		if r.EffectiveQuota != nil && r.LimitedBy == "" && m.Status.EffectiveQuota() == *r.EffectiveQuota {
			r.LimitedBy = nameOrID(m)
		}
	}
	r.LargestPut, _, _ = LargestPut(v)
	return r
}

func quotaMember(v cluster.View, m cluster.Member, h Headroom) QuotaMember {
	q := QuotaMember{ID: cluster.FormatID(m.ID), Name: m.Name, Endpoint: m.Endpoint, Role: v.Role(m), Alarms: v.AlarmsOf(m.ID)}
	if q.Alarms == nil {
		q.Alarms = []string{}
	}
	if m.Err != nil {
		q.Error = &MemberError{fault.CauseOf(m.Err), m.Err.Error(), fault.HintOf(m.Err)}
	}
	s := m.Status
	if s == nil {
		return q
	}
	q.Version, q.QuotaAssumed, q.QuotaDisabled = s.Version, s.QuotaAssumed, h.Quota == cluster.QuotaDisabled
	q.DBSize, q.DBInUse, q.DBFree, q.LargestPut = new(s.DBSize), new(s.DBInUse), new(s.DBSize-s.DBInUse), &h.Put
	if h.Quota > 0 {
		q.Quota, q.Headroom = &h.Quota, &h.Left
	}
	if u, ok := s.UsageRatio(); ok {
		q.Usage = &u
	}
	return q
}

// fuller is by how much a file must be larger than another to be the one that is
// split: members that do the same have files that differ by a few pages.
const fuller = 1.1

// fullerThan returns the member with the fullest file where that is larger by much
// than the one of the member that was read, and that member else. Members differ
// where one was not defragmented, or compacts later than the rest.
func fullerThan(read cluster.Member, v cluster.View) cluster.Member {
	full := func(m cluster.Member) float64 {
		if u, ok := m.Status.UsageRatio(); ok {
			return u
		}
		return float64(m.Status.DBSize)
	}
	most := read
	for _, m := range v.Answered() {
		if float64(m.Status.DBSize) > fuller*float64(read.Status.DBSize) && full(m) > full(most) {
			most = m
		}
	}
	return most
}

func fileContent(m cluster.Member, u keyspace.Usage, leases int64) FileContent {
	s := m.Status
	f := FileContent{Member: m.Name, DBSize: s.DBSize, InUse: s.DBInUse, Free: s.DBSize - s.DBInUse,
		Revisions: max(0, u.Revision-u.Oldest)}
	fixed := min(fixedPages, s.DBInUse)
	used := float64(f.InUse - fixed)
	f.Live = keyspace.Estimate{Bytes: min(u.InPages.Bytes, used), Error: u.InPages.Error}
	f.Reclaimable = keyspace.Estimate{Bytes: float64(f.DBSize-fixed) - f.Live.Bytes, Error: f.Live.Error}
	f.Leases = leaseContent(leases, int64(used))
	var held keyspace.Estimate
	if f.Leases != nil {
		held = f.Leases.Bytes
	}
	f.History = keyspace.Estimate{Bytes: min(max(0, used-f.Live.Bytes-held.Bytes), float64(f.Revisions*maxRequest)), Error: f.Live.Error + held.Error}
	if f.History.Bytes == 0 {
		f.History.Error = 0
	}
	f.Reclaimable.Bytes, f.Reclaimable.Error = max(0, f.Reclaimable.Bytes-held.Bytes), f.Reclaimable.Error+held.Error
	f.Other = max(0, f.InUse-int64(f.Live.Bytes)-int64(held.Bytes)-int64(f.History.Bytes))
	if size := float64(f.DBSize); size > 0 {
		f.FreeRatio, f.LiveRatio = float64(f.Free)/size, f.Live.Bytes/size
		f.HistoryRatio, f.InUseRatio = f.History.Bytes/size, float64(f.InUse)/size
	}
	if u.Keys > 0 {
		f.HistoryPerKey = float64(f.Revisions) / float64(u.Keys)
	}
	if u.Oldest > 1 {
		f.LastCompact = u.Oldest
	}
	return f
}
