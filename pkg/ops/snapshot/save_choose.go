package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// quotaLimit is the part of its quota that a member's file may have for a snapshot
// to be taken of it. The stream is one long read transaction: pages that are freed
// while it lasts are not used again, so that every write makes the file grow.
const quotaLimit = 0.9

// PassedOver is a member that a snapshot was not taken of, and why.
type PassedOver struct {
	Member string `json:"member"`
	Reason string `json:"reason"`

	rule string // of ours that passes over it; empty where it does not answer
}

// The rules that pass over a member that answers.
const (
	ruleLearner = "learner"
	ruleLag     = "lag"
	ruleCorrupt = "corrupt"
	ruleQuota   = "near_quota"
)

// candidate is a member that a snapshot can be taken of.
type candidate struct {
	cluster.Member

	why string
}

// choose ranks the members that a snapshot can be taken of, the best first, and
// says of the others why not. Load is how long each took to answer; a member that
// is not in it counts as idle.
//
// Followers come first: the leader has the writes of all to care for. A learner is
// taken only if it is named, or where there is no quorum: it may be far behind, and
// nobody relies on it. Without a quorum the furthest comes first, whatever it is.
func choose(v cluster.View, load map[uint64]time.Duration, o SaveOptions) ([]candidate, []PassedOver, error) {
	if o.Member != "" {
		return chooseNamed(v, o)
	}
	var head uint64
	for _, m := range v.Answered() {
		head = max(head, m.Status.AppliedIndex)
	}
	var fit []candidate
	passed := []PassedOver{}
	for _, m := range v.Members {
		if why := unfit(v, m, head, o); why.Reason != "" {
			passed = append(passed, why)
		} else {
			fit = append(fit, candidate{m, ""})
		}
	}
	slices.SortFunc(fit, func(a, b candidate) int {
		if o.WithoutQuorum { // then nothing but the member itself says how new it is
			if c := cmp.Compare(b.Status.AppliedIndex, a.Status.AppliedIndex); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(rank(v, a), rank(v, b)), cmp.Compare(load[a.ID], load[b.ID]), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	for i := range fit {
		fit[i].why = whyChosen(v, fit, i, o)
	}
	if len(fit) > 0 {
		return fit, passed, nil
	}
	return nil, passed, noneLeft(passed)
}

// rank orders members by what reading them costs the cluster, and by what they are
// relied on for.
func rank(v cluster.View, c candidate) int {
	switch {
	case c.Learner:
		return 2
	case c.ID == v.Leader:
		return 1
	}
	return 0
}

func whyChosen(v cluster.View, fit []candidate, i int, o SaveOptions) string {
	followers := 0
	for _, c := range fit {
		if rank(v, c) == 0 {
			followers++
		}
	}
	switch {
	case o.WithoutQuorum && len(fit) == 1:
		return "the only member that can be used"
	case o.WithoutQuorum:
		return "of those that answer none has applied more"
	case rank(v, fit[i]) == 1:
		return "the leader, as no follower can be used"
	case followers == 1:
		return "the only follower that can be used"
	}
	return "the follower that answers first"
}

// unfit says why a snapshot is not taken of a member; an empty reason means that
// it can be.
func unfit(v cluster.View, m cluster.Member, head uint64, o SaveOptions) PassedOver {
	p := PassedOver{Member: m.Label()}
	switch {
	case m.Status == nil:
		p.Reason = "does not answer"
		if m.Err != nil {
			p.Reason = fault.Why(m.Err)
		}
	case m.Learner && !o.WithoutQuorum:
		p.rule, p.Reason = ruleLearner, "a learner; --member takes it all the same"
	case head-m.Status.AppliedIndex > o.MaxLag:
		p.rule, p.Reason = ruleLag, fmt.Sprintf("%d entries behind the furthest, more than --max-lag %d", head-m.Status.AppliedIndex, o.MaxLag)
	case slices.Contains(v.AlarmsOf(m.ID), cluster.AlarmCorrupt):
		p.rule, p.Reason = ruleCorrupt, "a CORRUPT alarm is raised for it"
	default:
		if p.Reason = nearQuota(m, o); p.Reason != "" {
			p.rule = ruleQuota
		}
	}
	return p
}

func nearQuota(m cluster.Member, o SaveOptions) string {
	ratio, known := m.Status.UsageRatio()
	if !known || ratio <= quotaLimit || o.Force {
		return ""
	}
	return fmt.Sprintf("its file has %.0f %% of its quota, and cannot use freed pages again while it is read", 100*ratio)
}

// chooseNamed takes the member that was named, whatever its role and lag: that it
// has what it must have is checked before it is asked.
func chooseNamed(v cluster.View, o SaveOptions) ([]candidate, []PassedOver, error) {
	m, err := v.FindMember(o.Member)
	if err != nil {
		return nil, nil, err
	}
	if m.Status == nil {
		return nil, nil, &fault.Error{Kind: fault.KindOf(m.Err), Op: opSave, Subject: m.Label(), Err: m.Err, Hint: "leave out --member to have another one chosen"}
	}
	if why := nearQuota(m, o); why != "" {
		return nil, nil, noneLeft([]PassedOver{{m.Label(), why, ruleQuota}})
	}
	return []candidate{{m, "as told"}}, []PassedOver{}, nil
}

// noneLeft says why there is nobody to ask.
func noneLeft(passed []PassedOver) error {
	e := &fault.Error{Kind: fault.Unavailable, Cause: "no_member", Op: opSave, Msg: "no member can be used: ",
		Hint: "--member takes one whatever its role and lag, if it has the cluster's revision"}
	for i, p := range passed {
		if i > 0 {
			e.Msg += "; "
		}
		e.Msg += p.Member + ": " + p.Reason
		if p.rule != "" {
			e.Kind = fault.Refused
		}
		if p.rule == ruleQuota {
			e.Cause = ruleQuota
			e.Hint = "compact and defragment first (`kvd alarm recover` under NOSPACE), or --force: while NOSPACE is raised, or nobody writes, the file does not grow"
		}
	}
	return e
}
