package cluster

import (
	"encoding/json"
	"errors"
	"time"

	"kvd/pkg/ops/fault"
)

// The names below are a contract with everyone who reads `kvd status -o json`.

type viewJSON struct {
	At                time.Time       `json:"at"`
	ClusterID         hexID           `json:"cluster_id"`
	LeaderID          *hexID          `json:"leader_id"`
	Voters            *int            `json:"voters"` // null, like what follows from it, where it is not known who votes
	Learners          int             `json:"learners"`
	Quorum            *int            `json:"quorum"`
	FailuresTolerated *int            `json:"failures_tolerated"`
	ListErr           *errorJSON      `json:"member_list_error,omitempty"`
	Commits           bool            `json:"commits_all_the_same,omitempty"` // though fewer voters than a quorum answer
	Members           []memberJSON    `json:"members"`
	Alarms            []Alarm         `json:"alarms"`
	Source            string          `json:"source,omitempty"`
	Notes             []string        `json:"notes,omitempty"`
	Unreached         []unreachedJSON `json:"unreached_endpoints,omitempty"`
	Endpoints         []string        `json:"endpoints,omitempty"` // the given ones that lead into this cluster
	Strangers         []strangerJSON  `json:"endpoints_of_other_clusters,omitempty"`
}

type strangerJSON struct {
	Endpoint  string `json:"endpoint"`
	ClusterID hexID  `json:"cluster_id"`
	MemberID  hexID  `json:"member_id"`
	Revision  int64  `json:"revision"`
	Shared    bool   `json:"leads_to_several,omitempty"` // now into one cluster, now into another
}

type unreachedJSON struct {
	Endpoint string     `json:"endpoint"`
	Error    *errorJSON `json:"error"`
}

type memberJSON struct {
	ID             hexID      `json:"id"`
	Name           string     `json:"name"`
	Endpoint       string     `json:"endpoint"`
	Role           string     `json:"role"`
	Learner        bool       `json:"learner,omitempty"`
	ClientURLs     []string   `json:"client_urls,omitempty"`
	PeerURLs       []string   `json:"peer_urls,omitempty"`
	At             time.Time  `json:"at"`
	Version        string     `json:"version,omitempty"`
	StorageVersion string     `json:"storage_version,omitempty"`
	DBSize         *int64     `json:"db_size_bytes,omitempty"`
	DBInUse        *int64     `json:"db_in_use_bytes,omitempty"`
	DBFree         *int64     `json:"db_free_bytes,omitempty"`
	Quota          *int64     `json:"quota_bytes,omitempty"`
	QuotaDisabled  bool       `json:"quota_disabled,omitempty"`
	QuotaAssumed   bool       `json:"quota_assumed,omitempty"`
	Usage          *float64   `json:"usage_ratio,omitempty"`
	RaftTerm       *uint64    `json:"raft_term,omitempty"`
	RaftIndex      *uint64    `json:"raft_index,omitempty"`
	AppliedIndex   *uint64    `json:"applied_index,omitempty"`
	Lag            *uint64    `json:"lag_entries,omitempty"`
	Revision       *int64     `json:"revision,omitempty"`
	Leader         *hexID     `json:"leader_id,omitempty"`
	Alarms         []string   `json:"alarms"`
	Seen           []Alarm    `json:"alarms_seen,omitempty"`
	Errors         []string   `json:"errors,omitempty"`
	Downgrade      string     `json:"downgrade_target_version,omitempty"`
	Error          *errorJSON `json:"error,omitempty"`
}

type errorJSON struct {
	Kind    fault.Kind `json:"kind,omitempty"`
	Cause   string     `json:"cause"`
	Message string     `json:"message"`
	Hint    string     `json:"hint,omitempty"`
}

type alarmJSON struct {
	MemberID     hexID  `json:"member_id"`
	MemberName   string `json:"member_name"`
	Type         string `json:"type"`
	InMemberList bool   `json:"in_member_list"`
	Source       string `json:"source"`
}

// MarshalJSON writes the alarm with its ID in hexadecimal.
func (a Alarm) MarshalJSON() ([]byte, error) {
	return json.Marshal(alarmJSON{
		MemberID: hexID(a.MemberID), MemberName: a.MemberName, Type: a.Type, InMemberList: a.InMemberList, Source: a.Source,
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Alarm) UnmarshalJSON(b []byte) error {
	var j alarmJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*a = Alarm{uint64(j.MemberID), j.MemberName, j.Type, j.InMemberList, j.Source}
	return nil
}

// MarshalJSON writes the view, with what follows from it (role, quorum, usage).
func (v View) MarshalJSON() ([]byte, error) {
	j := viewJSON{
		At: v.At, ClusterID: hexID(v.ID), Learners: len(v.Learners()), ListErr: newErrorJSON(v.ListErr),
		Commits: v.Commits, Members: []memberJSON{}, Alarms: v.Alarms, Source: v.Source, Notes: v.Notes, Endpoints: v.Endpoints,
	}
	if v.VotersKnown() {
		j.Voters, j.Quorum, j.FailuresTolerated = new(len(v.Voters())), new(v.Quorum()), new(v.FailuresTolerated())
	}
	if v.Commits { // how many of those that are not reached have failed cannot be seen
		j.FailuresTolerated = nil
	}
	if v.Leader != 0 {
		j.LeaderID = new(hexID(v.Leader))
	}
	if j.Alarms == nil {
		j.Alarms = []Alarm{}
	}
	for _, m := range v.Members {
		j.Members = append(j.Members, v.memberJSON(m))
	}
	for _, u := range v.Unreached {
		j.Unreached = append(j.Unreached, unreachedJSON{u.Endpoint, newErrorJSON(u.Err)})
	}
	for _, o := range v.Strangers {
		j.Strangers = append(j.Strangers, strangerJSON{o.Endpoint, hexID(o.ClusterID), hexID(o.MemberID), o.Revision, o.Shared})
	}
	return json.Marshal(j)
}

func newErrorJSON(err error) *errorJSON {
	if err == nil {
		return nil
	}
	return &errorJSON{fault.KindOf(err), fault.CauseOf(err), err.Error(), fault.HintOf(err)}
}

func (e *errorJSON) err() error {
	if e == nil {
		return nil
	}
	return &fault.Error{Kind: e.Kind, Cause: e.Cause, Hint: e.Hint, Err: errors.New(e.Message)}
}

func (v View) memberJSON(m Member) memberJSON {
	j := memberJSON{
		ID: hexID(m.ID), Name: m.Name, Endpoint: m.Endpoint, Role: v.Role(m), Learner: m.Learner,
		ClientURLs: m.ClientURLs, PeerURLs: m.PeerURLs, At: m.At, Alarms: v.AlarmsOf(m.ID),
	}
	if j.Alarms == nil {
		j.Alarms = []string{}
	}
	j.Error = newErrorJSON(m.Err)
	s := m.Status
	if s == nil {
		return j
	}
	j.Version, j.StorageVersion, j.Downgrade = s.Version, s.StorageVersion, s.DowngradeTarget
	j.DBSize, j.DBInUse, j.DBFree = &s.DBSize, &s.DBInUse, new(s.DBSize-s.DBInUse)
	j.RaftTerm, j.RaftIndex, j.AppliedIndex, j.Revision = &s.RaftTerm, &s.RaftIndex, &s.AppliedIndex, &s.Revision
	j.Lag = new(v.Lag(m))
	j.Leader, j.Errors, j.QuotaAssumed, j.Seen = new(hexID(s.Leader)), s.Errors, s.QuotaAssumed, s.Alarms
	switch q := s.EffectiveQuota(); q {
	case QuotaUnknown:
	case QuotaDisabled:
		j.QuotaDisabled = true
	default:
		j.Quota = &q
	}
	if r, ok := s.UsageRatio(); ok {
		j.Usage = &r
	}
	return j
}

// UnmarshalJSON reads what MarshalJSON writes, so that views can be recorded.
func (v *View) UnmarshalJSON(b []byte) error {
	var j viewJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*v = View{At: j.At, ID: uint64(j.ClusterID), Alarms: j.Alarms, Source: j.Source, Notes: j.Notes, Endpoints: j.Endpoints, Commits: j.Commits, ListErr: j.ListErr.err()}
	if j.LeaderID != nil {
		v.Leader = uint64(*j.LeaderID)
	}
	for _, m := range j.Members {
		v.Members = append(v.Members, m.member())
	}
	for _, u := range j.Unreached {
		v.Unreached = append(v.Unreached, EndpointError{u.Endpoint, u.Error.err()})
	}
	for _, o := range j.Strangers {
		v.Strangers = append(v.Strangers, Stranger{o.Endpoint, uint64(o.ClusterID), uint64(o.MemberID), o.Revision, o.Shared})
	}
	return nil
}

func (j memberJSON) member() Member {
	m := Member{
		ID: uint64(j.ID), Name: j.Name, Endpoint: j.Endpoint, ClientURLs: j.ClientURLs, PeerURLs: j.PeerURLs,
		Learner: j.Learner || j.Role == RoleLearner, At: j.At,
	}
	m.Err = j.Error.err()
	if j.DBSize == nil {
		return m
	}
	s := &Status{
		Version: j.Version, StorageVersion: j.StorageVersion, DBSize: *j.DBSize, DBInUse: deref(j.DBInUse),
		Revision: deref(j.Revision), RaftTerm: deref(j.RaftTerm), RaftIndex: deref(j.RaftIndex),
		AppliedIndex: deref(j.AppliedIndex), Leader: uint64(deref(j.Leader)), Learner: m.Learner,
		Alarms: j.Seen, Errors: j.Errors, Quota: deref(j.Quota), QuotaAssumed: j.QuotaAssumed,
		DowngradeTarget: j.Downgrade,
	}
	if j.QuotaDisabled {
		s.Quota = QuotaDisabled
	}
	s.QuotaKnown = !j.QuotaAssumed && (j.Quota != nil || j.QuotaDisabled)
	m.Status = s
	return m
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
