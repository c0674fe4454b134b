package ops

import (
	"time"

	"kvd/pkg/ops/cluster"
)

// Growth watches how a cluster's files fill. Its zero value is ready for Add. It
// is not safe for concurrent use.
type Growth struct {
	first, last map[uint64]growthPoint
}

type growthPoint struct {
	at       time.Time
	size     int64
	inUse    int64
	revision int64
}

// GrowthSample is one look at a growing cluster: the member that will be full
// first, or, where none grows, the fullest.
type GrowthSample struct {
	At           time.Time `json:"at"`
	Member       string    `json:"member"`
	DBSize       int64     `json:"db_size_bytes"`
	DBInUse      int64     `json:"db_in_use_bytes"`
	Quota        *int64    `json:"quota_bytes,omitempty"`
	Usage        *float64  `json:"usage_ratio,omitempty"`
	Revision     int64     `json:"revision"`
	SizeRate     *float64  `json:"db_size_bytes_per_second,omitempty"`        // since the last look
	InUseRate    *float64  `json:"db_in_use_bytes_per_second,omitempty"`      // since the last look
	RevisionRate *float64  `json:"revisions_per_second,omitempty"`            // since the last look
	Average      *float64  `json:"average_in_use_bytes_per_second,omitempty"` // since the first look
	FullIn       *float64  `json:"full_in_seconds,omitempty"`                 // at the average; absent while nothing grows
	Alarms       []string  `json:"alarms"`
	Silent       []string  `json:"members_silent,omitempty"`
}

// Add takes a view into account and says how things stand. It is false where no
// member answered.
//
// Time until full: writes use the free pages of a file before the file grows, so
// what is left is the quota less the bytes in use, and what grows are the bytes
// in use. Their average since the first look counts, as a compaction in between
// makes them fall.
func (g *Growth) Add(v cluster.View) (GrowthSample, bool) {
	if g.first == nil {
		g.first, g.last = map[uint64]growthPoint{}, map[uint64]growthPoint{}
	}
	var best GrowthSample
	found := false
	for _, m := range v.Answered() {
		s := g.member(v, m)
		if !found || sooner(s, best) {
			best, found = s, true
		}
	}
	best.At, best.Alarms = v.At, []string{}
	for _, a := range v.Alarms {
		owner := a.MemberName
		if owner == "" {
			owner = cluster.FormatID(a.MemberID)
		}
		best.Alarms = append(best.Alarms, a.Type+" of "+owner)
	}
	for _, m := range v.Silent() {
		best.Silent = append(best.Silent, m.Label())
	}
	return best, found
}

func (g *Growth) member(v cluster.View, m cluster.Member) GrowthSample {
	s := m.Status
	now := growthPoint{m.At, s.DBSize, s.DBInUse, s.Revision}
	if now.at.IsZero() {
		now.at = v.At
	}
	out := GrowthSample{Member: m.Name, DBSize: s.DBSize, DBInUse: s.DBInUse, Revision: s.Revision}
	q := s.EffectiveQuota()
	if u, ok := s.UsageRatio(); ok {
		out.Quota, out.Usage = &q, &u
	}
	if last, ok := g.last[m.ID]; ok && now.at.After(last.at) {
		dt := now.at.Sub(last.at).Seconds()
		out.SizeRate = new(float64(now.size-last.size) / dt)
		out.InUseRate = new(float64(now.inUse-last.inUse) / dt)
		out.RevisionRate = new(float64(now.revision-last.revision) / dt)
	}
	if first, ok := g.first[m.ID]; ok && now.at.After(first.at) {
		rate := float64(now.inUse-first.inUse) / now.at.Sub(first.at).Seconds()
		out.Average = &rate
		if rate > 0 && q > 0 {
			out.FullIn = new(max(0, float64(q-s.DBInUse)/rate))
		}
	} else if !ok {
		g.first[m.ID] = now
	}
	g.last[m.ID] = now
	return out
}

// sooner orders samples: the one full first, then the one with less room.
func sooner(a, b GrowthSample) bool {
	switch {
	case a.FullIn != nil && b.FullIn != nil && *a.FullIn != *b.FullIn:
		return *a.FullIn < *b.FullIn
	case (a.FullIn != nil) != (b.FullIn != nil):
		return a.FullIn != nil
	case a.Usage != nil && b.Usage != nil:
		return *a.Usage > *b.Usage
	case (a.Usage != nil) != (b.Usage != nil):
		return a.Usage != nil
	}
	return a.DBSize > b.DBSize
}
