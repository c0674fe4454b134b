package ops

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// WriteRequest is a put that nobody sends.
type WriteRequest struct {
	Key           string
	Value         int64  // bytes
	Lease         uint64 // 0: none
	RequireLeader bool   // the client asks not to be served without a leader, as etcd's Go client can
	MaxRequest    int64  // the servers' --max-request-bytes, which no request tells; 0: assume the default
	MaxSend       int64  // bytes that the client sends at most (MaxCallSendMsgSize of etcd's Go client); 0: its default
}

// States of a step.
const (
	StepPasses  = "passes"
	StepStops   = "stops"   // the write would end here
	StepUnknown = "unknown" // it can't be told; Detail says why
)

// Verdicts on a write.
const (
	WriteAccepted    = "accepted"
	WriteRefused     = "refused"
	WriteUnknown     = "unknown"
	WriteUnreachable = "unreachable" // the member itself does not answer
)

// checkPermission is the check that the rights of the writer decide.
const checkPermission = "permission"

// WriteStep is one check of etcd's write path.
type WriteStep struct {
	Stage   string           `json:"stage"` // client, transport, api, server, raft, apply
	Check   string           `json:"check"`
	State   string           `json:"state"`
	Detail  string           `json:"detail"`
	Error   string           `json:"error,omitempty"` // what the client is told where the write ends here
	Numbers map[string]int64 `json:"numbers,omitempty"`
	Source  string           `json:"source"` // file and function in etcd 3.7.3

	hint string // what to do about it, where that depends on why the step stops the write
}

// WriteVerdict is what becomes of a write at one member.
type WriteVerdict struct {
	ID       string `json:"id,omitempty"` // empty where nobody told it
	Endpoint string `json:"endpoint"`
	Name     string `json:"name"`
	Role     string `json:"role"`
	Verdict  string `json:"verdict"`
	StopsAt  string `json:"stops_at,omitempty"` // the check of the first step that stops it
	Stage    string `json:"stage,omitempty"`
	Error    string `json:"error,omitempty"` // what the client is told, where that is certain
	// AtTheLatest: something before StopsAt is not known and may stop the write
	// too, and then in other words.
	AtTheLatest bool   `json:"at_the_latest,omitempty"`
	Why         string `json:"why,omitempty"` // what is not known, or why the member does not answer

	steps []WriteStep
}

// SentRequest is something that was sent to find out.
type SentRequest struct {
	What  string `json:"what"`
	Count int    `json:"count"`
	Raft  bool   `json:"raft_proposal"` // a raft entry on every member, though it changes no key
}

// WriteReport says what would become of a write.
type WriteReport struct {
	At        time.Time `json:"at"`
	ClusterID string    `json:"cluster_id,omitempty"`
	Source    string    `json:"source,omitempty"`
	Key       string    `json:"-"`
	Value     int64     `json:"value_bytes"`
	Cost      int64     `json:"quota_cost_bytes"`
	Message   int64     `json:"message_bytes"` // as the client sends it
	User      string    `json:"user,omitempty"`
	Verdict   string    `json:"verdict"` // at the worst of the voters that answer, or at the member asked for
	StopsAt   string    `json:"stops_at,omitempty"`
	Error     string    `json:"error,omitempty"`
	// AtTheLatest and Why are those of the member shown, see WriteVerdict.
	AtTheLatest bool   `json:"at_the_latest,omitempty"`
	Why         string `json:"why,omitempty"`
	// RaisesNoSpace: the write is accepted and is the last, since a member has no
	// room for it and makes the cluster read-only.
	RaisesNoSpace bool           `json:"raises_nospace,omitempty"`
	Member        string         `json:"member"` // whose steps are shown
	Steps         []WriteStep    `json:"steps"`
	Members       []WriteVerdict `json:"members"`
	Notes         []string       `json:"notes"`
	Sent          []SentRequest  `json:"sent"`

	unreachable error // why the member shown does not answer
}

// MarshalJSON adds the key: "key", or "key_base64" if it is not UTF-8.
func (r WriteReport) MarshalJSON() ([]byte, error) {
	type plain WriteReport
	if utf8.ValidString(r.Key) {
		return json.Marshal(struct {
			Key string `json:"key"`
			plain
		}{r.Key, plain(r)})
	}
	return json.Marshal(struct {
		Key []byte `json:"key_base64"`
		plain
	}{[]byte(r.Key), plain(r)})
}

// WriteFacts is everything that the judgement of a write rests on: data, so that
// it can be recorded.
type WriteFacts struct {
	Now     time.Time
	Write   WriteRequest
	Who     WriteUser
	Members []WriteMember
	Voters  int // 0: not known
	Alive   int // voters that answer, or at least refuse
	Alarms  []cluster.Alarm
	// AlarmsKnown is false where no member told its status, which is where alarms
	// are read.
	AlarmsKnown bool
	LeaseExists *bool
	LeaseKeys   []string // nil: not known, or not asked for since everybody may write
	LeaseWhy    string   // why one of these is not known
}

// WriteMember is what is known of one member. A nil is not known.
type WriteMember struct {
	ID       uint64
	Name     string
	Endpoint string
	Role     string // as the members that answer have it; empty: nobody told
	Learner  bool
	Leads    bool
	Version  string
	Source   string // "status", or "metrics" where the status did not come; empty: nothing came
	Err      error  // why its status did not come

	DBSize       *int64  // bytes
	Quota        *int64  // bytes; cluster.QuotaDisabled
	Committed    *uint64 // index
	Applied      *uint64 // index
	HasLeader    *bool
	Leader       uint64 // whom it follows; 0: nobody, or not known
	AuthRevision *uint64
	Defrags      bool

	Credential string // how the member took the credential: one of the credential… values
}

// How a member takes a credential.
const (
	credentialUntried = ""
	credentialGood    = "good"
	credentialNone    = "none"    // it knows of no user in the request
	credentialInvalid = "invalid" // it does not know the token
	credentialFuture  = "future"  // the token was made at an entry that the member has not applied, and it waits for that
	credentialOld     = "old"     // the token is of an older revision of users and roles
)

// WriteUser is whose write it is.
type WriteUser struct {
	AuthOn *bool
	AuthBy string // why it is not known, if it isn't
	Name   string // empty: nobody, or a token that does not say whose it is
	From   string // "password", "certificate", "token" or "as-user"
	Rights *UserRights
	Why    string // why the rights are not known
}

// UserRights is what a user may write.
type UserRights struct {
	Exists bool
	Root   bool
	Roles  []string
	Write  []KeyRange
}

// KeyRange is a range as etcd's permissions have it: To is empty for a single
// key and "\x00" for everything from From on.
type KeyRange struct{ From, To string }

// Holds reports that a key is in the range (isRangeOpPermitted in
// server/v3/auth/range_perm_cache.go).
func (r KeyRange) Holds(key string) bool {
	switch r.To {
	case "":
		return key == r.From
	case "\x00":
		return key >= r.From
	}
	return key >= r.From && key < r.To
}

// mayWrite reports that the user may write the key.
func (u UserRights) mayWrite(key string) bool {
	return u.Exists && (u.Root || slices.ContainsFunc(u.Write, func(r KeyRange) bool { return r.Holds(key) }))
}

// Err is the verdict as an error: nil where the write would be accepted.
func (r WriteReport) Err() error {
	switch r.Verdict {
	case WriteAccepted:
		return nil
	case WriteRefused:
		msg := "the write would be refused at " + r.StopsAt + ": " + r.Error
		if r.AtTheLatest {
			msg = "the write would be refused at " + r.StopsAt + " at the latest; not known is " + r.Why
		}
		return &fault.Error{Kind: fault.Wanting, Cause: "write_refused_at_" + r.StopsAt, Op: "explain write", Subject: r.Member, Msg: msg, Hint: r.hint()}
	case WriteUnreachable:
		e := &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoEndpoint, Op: "explain write", Subject: r.Member,
			Msg: "nothing is known of the member that the write would go to", Hint: "see `kvd status`", Err: r.unreachable}
		if r.unreachable != nil {
			e.Cause, e.Hint = cmp.Or(fault.CauseOf(r.unreachable), e.Cause), cmp.Or(fault.HintOf(r.unreachable), e.Hint)
		}
		return e
	}
	return &fault.Error{Kind: fault.Inconclusive, Cause: "write_unknown", Op: "explain write", Subject: r.Member, Msg: "it can't be told what becomes of the write: " + r.Why}
}

// hint says what helps against the check that stops the write.
func (r WriteReport) hint() string {
	for _, s := range r.Steps {
		if s.Check == r.StopsAt && s.hint != "" {
			return s.hint
		}
	}
	switch r.StopsAt {
	case "send_limit", "receive_limit", "request_size":
		return "store a smaller value; --max-request-bytes of every member, and the client's own limit, would have to be raised otherwise"
	case "learner":
		return "give the client the endpoints of voters"
	case "require_leader", "propose":
		return "see `kvd status` for who is down: a majority of the voters must be up and reach each other"
	case "quota", "nospace_alarm":
		return "kvd quota says what fills it; kvd alarm recover --dry-run shows the way out"
	case "apply_gap":
		return "wait, write less, and look for what keeps the member from applying: a defragmentation, a slow disk, a huge request"
	case "corrupt_alarm":
		return "find out which member differs with kvd alarm list before anything else"
	case "store":
		return "kvd lease list shows the leases there are"
	}
	return ""
}
