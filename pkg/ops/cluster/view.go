package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kvd/pkg/ops/fault"
)

// DefaultQuota is what a --quota-backend-bytes of 0 means (DefaultQuotaBytes in
// server/v3/storage/quota.go), in bytes.
const DefaultQuota int64 = 2 << 30

// View is one picture of a cluster. It is data and nothing else, so that plans
// and checks can be tested on recorded ones.
type View struct {
	At      time.Time // when the picture was begun
	ID      uint64
	Leader  uint64 // 0 where no member knows one
	Members []Member
	Alarms  []Alarm
	Source  string   // Config.Source of the bundle it was taken with
	Notes   []string // what looks odd: members that disagree on the member list, …

	// ListErr is why nobody told the member list, a *fault.Error with a cause.
	// Members are then only those that were asked, and who else votes is not
	// known: see VotersErr.
	ListErr error

	// Commits says that fewer voters answer than a quorum takes and that there is one all
	// the same, see seeQuorum: the others run and are not reached from here.
	Commits bool

	// Strangers are endpoints that lead into another cluster than the rest: given ones,
	// and those that members of this one advertise.
	Strangers []Stranger

	// Endpoints are the given ones that lead into this cluster.
	Endpoints []string

	// Unreached are given endpoints that failed and can't be told to be one of
	// the members. (A member that failed has its error with it.)
	Unreached []EndpointError
}

// Stranger is a member of another cluster, where one of this was asked.
type Stranger struct {
	Endpoint            string
	ClusterID, MemberID uint64
	Revision            int64
	Shared              bool // connections to the endpoint lead into several clusters, by chance or in turns
}

// EndpointError is an endpoint and what is wrong with it.
type EndpointError struct {
	Endpoint string
	Err      error // a *fault.Error with a cause
}

// Member is one member. One that did not answer has Status nil and Err set.
type Member struct {
	ID         uint64
	Name       string // empty for a member that was added and never started
	Endpoint   string // where it was asked: the user's endpoint if one leads to it, else an advertised URL
	ClientURLs []string
	PeerURLs   []string
	Learner    bool
	Status     *Status
	At         time.Time // when it answered, or when it was given up
	Err        error     // a *fault.Error with a cause
}

// Status is what a member says of itself.
type Status struct {
	Version        string
	StorageVersion string // empty before etcd 3.6
	DBSize         int64  // bytes of the file, free pages included; what the quota is compared with
	DBInUse        int64  // bytes of it in use
	Quota          int64  // bytes; < 0: disabled. Meaningful if QuotaKnown
	QuotaKnown     bool   // false for servers before 3.6, whose status doesn't tell
	QuotaAssumed   bool   // the number is the user's word, see View.AssumeQuota
	Revision       int64
	RaftTerm       uint64
	RaftIndex      uint64 // committed, as far as this member knows
	AppliedIndex   uint64
	Leader         uint64
	Learner        bool
	// DowngradeTarget is the version of a downgrade that is under way; empty where
	// there is none, and before etcd 3.6, which does not tell.
	DowngradeTarget string
	Alarms          []Alarm  // every alarm of the cluster, as this member has it
	Errors          []string // what else is in the member's list of errors
}

// Alarm is one alarm: a member and a type.
type Alarm struct {
	MemberID     uint64
	MemberName   string // empty if the member is not in the list any more
	Type         string // "NOSPACE" or "CORRUPT"
	InMemberList bool
	Source       string // who said so: "status of m1, m2"
}

// Roles of a member.
const (
	RoleLeader    = "leader"
	RoleFollower  = "follower"
	RoleLearner   = "learner"
	RoleUnstarted = "unstarted"
	RoleVoter     = "voter"   // one that did not answer and that no other calls the leader: it may not even run
	RoleUnknown   = "unknown" // a voter of a cluster whose leader nobody knows
)

// Role returns the member's role in this view.
func (v View) Role(m Member) string {
	switch {
	case !m.Started():
		return RoleUnstarted
	case m.Learner:
		return RoleLearner
	case v.Leader == 0:
		return RoleUnknown
	case m.ID == v.Leader:
		return RoleLeader
	case m.Status == nil:
		return RoleVoter
	}
	return RoleFollower
}

// Started is false for a member that was added and has not joined yet.
func (m Member) Started() bool { return m.Name != "" || len(m.ClientURLs) > 0 || m.Status != nil }

// Label names the member for people: name and ID.
func (m Member) Label() string {
	if m.Name == "" {
		return FormatID(m.ID)
	}
	return fmt.Sprintf("%s (%s)", m.Name, FormatID(m.ID))
}

// Alive reports that the member is there: it answered, or it refused us, which
// something that is down can't do. That this host lets nobody connect there says nothing.
func (m Member) Alive() bool {
	return m.Status != nil || (m.Err != nil && fault.KindOf(m.Err) == fault.Denied && fault.CauseOf(m.Err) != CauseUnreachable)
}

// Lag returns how many committed raft entries the member has still to apply,
// counted from the furthest commit index in the view.
func (v View) Lag(m Member) uint64 {
	if m.Status == nil {
		return 0
	}
	var head uint64
	for _, o := range v.Members {
		if o.Status != nil {
			head = max(head, o.Status.RaftIndex)
		}
	}
	if head <= m.Status.AppliedIndex {
		return 0
	}
	return head - m.Status.AppliedIndex
}

// Voters returns the members that vote, unstarted ones included: they count for
// the quorum from the moment they are added.
func (v View) Voters() []Member { return v.filter(func(m Member) bool { return !m.Learner }) }

// Learners returns the members that don't vote.
func (v View) Learners() []Member { return v.filter(func(m Member) bool { return m.Learner }) }

// Answered returns the members whose status is known.
func (v View) Answered() []Member { return v.filter(func(m Member) bool { return m.Status != nil }) }

// Silent returns the members whose status is not known.
func (v View) Silent() []Member { return v.filter(func(m Member) bool { return m.Status == nil }) }

// Downgrade returns the version of a downgrade that is under way, as a member tells it;
// empty if none does.
func (v View) Downgrade() string {
	for _, m := range v.Answered() {
		if m.Status.DowngradeTarget != "" {
			return m.Status.DowngradeTarget
		}
	}
	return ""
}

func (v View) filter(keep func(Member) bool) []Member {
	var out []Member
	for _, m := range v.Members {
		if keep(m) {
			out = append(out, m)
		}
	}
	return out
}

// Quorum returns how many voters it takes.
func (v View) Quorum() int { return len(v.Voters())/2 + 1 }

// FailuresTolerated returns how many more voters may fail, given those that
// don't answer already. It is never negative.
func (v View) FailuresTolerated() int {
	return max(0, v.VotersAlive()-v.Quorum())
}

// MemberByID finds a member.
func (v View) MemberByID(id uint64) (Member, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}, false
	}
	return v.Members[i], true
}

// FindMember finds a member by what a person types: its name, its ID in
// hexadecimal, or its endpoint. A name that several members share, or none has,
// is a usage error that lists the members; one that is not known because the
// members are not is a VotersErr.
func (v View) FindMember(s string) (Member, error) {
	named := v.filter(func(m Member) bool { return m.Name == s && s != "" })
	if len(named) == 1 {
		return named[0], nil
	}
	if id, err := ParseID(s); err == nil && len(named) == 0 {
		if m, ok := v.MemberByID(id); ok {
			return m, nil
		}
	}
	if at := v.filter(func(m Member) bool { return m.Endpoint == s && s != "" }); len(named) == 0 && len(at) == 1 {
		return at[0], nil
	}
	if err := v.VotersErr(""); err != nil && len(named) == 0 {
		return Member{}, err // which is no member we know, and may be one
	}
	labels := make([]string, 0, len(v.Members))
	for _, m := range v.Members {
		labels = append(labels, m.Label())
	}
	e := &fault.Error{Kind: fault.Usage, Cause: CauseMemberNotFound, Subject: s,
		Msg: "no member has this name or ID", Hint: "members are " + strings.Join(labels, ", ")}
	if len(named) > 1 {
		e.Msg, e.Cause = fmt.Sprintf("%d members have this name", len(named)), "member_ambiguous"
		e.Hint = "give the ID instead: " + e.Hint
	}
	for _, n := range v.Notes {
		if strings.Contains(n, otherCluster) { // whose members nobody looks at
			e.Hint += "; " + n
		}
	}
	return Member{}, e
}

// otherCluster are the words of a note about an endpoint that is left out.
const otherCluster = "belongs to another cluster"

// LeaderMember returns the leader, if the view has one.
func (v View) LeaderMember() (Member, bool) {
	if v.Leader == 0 {
		return Member{}, false
	}
	return v.MemberByID(v.Leader)
}

// FollowersFirst returns the started members in the order in which to disturb
// them: learners, then followers, the leader last; by name within each.
func (v View) FollowersFirst() []Member {
	out := v.filter(Member.Started)
	rank := func(m Member) int {
		switch v.Role(m) {
		case RoleLearner:
			return 0
		case RoleLeader:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b Member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Readers returns the voters that answered, in the order in which they are asked
// for what any of them can tell: followers before the leader, the one that lags
// least first. A learner refuses part of what reading takes.
func (v View) Readers() []Member {
	out := v.filter(func(m Member) bool { return m.Status != nil && !m.Learner })
	leads := func(m Member) int {
		if m.ID == v.Leader {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out, func(a, b Member) int {
		return cmp.Or(cmp.Compare(leads(a), leads(b)), cmp.Compare(v.Lag(a), v.Lag(b)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Err joins the errors of all members and endpoints that could not be asked;
// nil if every one answered.
func (v View) Err() error {
	var errs []error
	for _, m := range v.Members {
		if m.Err != nil {
			errs = append(errs, m.Err)
		}
	}
	for _, u := range v.Unreached {
		errs = append(errs, u.Err)
	}
	return errors.Join(errs...)
}

// AlarmsOf returns the types of the alarms raised for a member.
func (v View) AlarmsOf(id uint64) []string {
	var out []string
	for _, a := range v.Alarms {
		if a.MemberID == id {
			out = append(out, a.Type)
		}
	}
	return out
}

// HasAlarm reports whether an alarm of the type is raised for any member.
func (v View) HasAlarm(typ string) bool {
	return slices.ContainsFunc(v.Alarms, func(a Alarm) bool { return a.Type == typ })
}
