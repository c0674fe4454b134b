package cluster

import "slices"

// EffectiveQuota returns the member's quota in bytes: QuotaDisabled where it has
// none, QuotaUnknown where it does not say.
func (s *Status) EffectiveQuota() int64 {
	switch {
	case s == nil, !s.QuotaKnown && !s.QuotaAssumed:
		return QuotaUnknown
	case s.Quota < 0:
		return QuotaDisabled
	case s.Quota == 0:
		return DefaultQuota
	}
	return s.Quota
}

// What EffectiveQuota returns where there is no number of bytes.
const (
	QuotaUnknown  int64 = 0
	QuotaDisabled int64 = -1
)

// UsageRatio returns file size over quota; false where there is no quota to
// compare with.
func (s *Status) UsageRatio() (float64, bool) {
	q := s.EffectiveQuota()
	if q <= 0 {
		return 0, false
	}
	return float64(s.DBSize) / float64(q), true
}

// EffectiveQuota returns the cluster's quota: the smallest of the members', for
// the first member to reach its own makes the whole cluster read-only.
// QuotaDisabled if every member that says has it disabled, QuotaUnknown if none
// says.
func (v View) EffectiveQuota() int64 {
	smallest := QuotaUnknown
	for _, m := range v.Members {
		switch q := m.Status.EffectiveQuota(); {
		case q == QuotaUnknown:
		case q == QuotaDisabled:
			if smallest == QuotaUnknown {
				smallest = QuotaDisabled
			}
		case smallest <= 0 || q < smallest:
			smallest = q
		}
	}
	return smallest
}

// QuotasLike returns a copy in which members that do not tell their quota have the one
// that another view of the cluster has of them: by the user's word or by their metrics.
func (v View) QuotasLike(other View) View {
	v.Members = slices.Clone(v.Members)
	for i, m := range v.Members {
		if o, ok := other.MemberByID(m.ID); ok && m.Status != nil {
			s := m.Status.QuotaLike(o.Status)
			v.Members[i].Status = &s
		}
	}
	return v
}

// QuotaLike is QuotasLike of one member. Other may be nil.
func (s Status) QuotaLike(other *Status) Status {
	if other != nil && s.EffectiveQuota() == QuotaUnknown {
		s.Quota, s.QuotaKnown, s.QuotaAssumed = other.Quota, other.QuotaKnown, other.QuotaAssumed
	}
	return s
}

// AssumeQuota returns a copy in which every member that does not tell its quota
// has this one, in bytes (< 0: disabled), marked as assumed.
func (v View) AssumeQuota(bytes int64) View {
	v.Members = slices.Clone(v.Members)
	for i, m := range v.Members {
		if m.Status != nil && !m.Status.QuotaKnown {
			s := *m.Status
			s.Quota, s.QuotaAssumed = bytes, true
			v.Members[i].Status = &s
		}
	}
	return v
}
