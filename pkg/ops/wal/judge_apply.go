package wal

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// CauseForeign is that of a refusal because of an entry that another version of etcd
// wrote, and 3.7 cannot apply.
const CauseForeign = "foreign_entry"

// maxForeign is how many such entries are remembered, the last ones.
const maxForeign = 1000

// foreign is an entry that etcd 3.7 cannot apply. After the start all entries behind
// the snapshot record are applied, those that the database has already without an
// effect; one that cannot be decoded ends the process even so (apply in
// server/etcdserver/server.go).
type foreign struct {
	id      EntryID
	at      Position
	typ     RequestType
	words   string // with which the process ends
	unknown bool   // it can be decoded, so that it matters only where it was not applied yet
}

// foreigner looks at an entry. Most entries are of types that hold nothing that
// protobuf is strict about, and were decoded already.
func (x *exam) foreigner(r *Record) {
	for n := len(x.foreign); n > 0 && x.foreign[n-1].id.Index >= r.Entry.Index; n-- {
		x.foreign = x.foreign[:n-1] // replaced by a later leader
	}
	q := &x.request
	q.Decode(r.Entry)
	x.memberEntry(r, q)
	words, unknown := cannotApply(r.Entry, q)
	if words == "" {
		return
	}
	if len(x.foreign) == maxForeign {
		x.foreign = append(x.foreign[:0], x.foreign[1:]...)
	}
	x.foreign = append(x.foreign, foreign{EntryID{r.Entry.Index, r.Entry.Term}, r.Position, q.Type, words, unknown})
}

// cannotApply returns the words with which etcd 3.7 ends when it applies an entry; ""
// is that it can. q is the entry, decoded.
func cannotApply(e Entry, q *Request) (words string, unknown bool) {
	const undecodable = "unmarshal should never fail"
	switch {
	case e.Type == int32(raftpb.EntryConfChange):
		return cannotChange(e.Data, undecodable), false
	case e.Type != int32(raftpb.EntryNormal):
		return "unknown entry type; must be either EntryNormal or EntryConfChange", false
	case q.Type == NoRequest || q.plain():
		return "", false
	}
	var req etcdserverpb.InternalRaftRequest
	switch err := proto.Unmarshal(e.Data, &req); {
	case err != nil:
		return undecodable, false
	case req.ID == 0 && req.Header == nil:
		return "Apply, could not find a header", false
	case q.Type == UnknownType || q.Type == V2Request:
		return "not implemented apply", true
	}
	return "", false
}

// plain reports that etcd decodes a request if it was decoded here: it is one alone,
// and holds no strings, of which protobuf wants to have UTF-8.
func (r *Request) plain() bool {
	switch r.Type {
	case PutType, RangeType, DeleteRangeType, TxnType, CompactionType, LeaseGrantType, LeaseRevokeType, LeaseCheckpointType:
		return !r.several && r.ID != 0 && utf8.ValidString(r.User)
	}
	return false
}

// cannotChange is cannotApply for a change of members (applyConfChange in server.go).
func cannotChange(data []byte, undecodable string) string {
	var cc raftpb.ConfChange
	if proto.Unmarshal(data, &cc) != nil {
		return undecodable
	}
	var member struct { // of membership.ConfigChangeContext, which is a Member and more
		ID uint64 `json:"id"`
	}
	if cc.GetType() != raftpb.ConfChangeRemoveNode && json.Unmarshal(cc.Context, &member) != nil {
		return "failed to unmarshal" // what, depends on whether the database has the entry already
	}
	return ""
}

// applies is what comes of the entries that are applied after the start, if one of
// them cannot be.
func (x *exam) applies(snap Snapshot, v Verdict) (Verdict, bool) {
	for i := range x.foreign {
		f := &x.foreign[i]
		if f.id.Index <= snap.Index || f.id.Index > v.replay.Index || f.unknown && (x.Database == nil && x.bare || x.Database != nil && f.id.Index <= x.applied) {
			continue
		}
		return Verdict{Outcome: Refuses, cause: CauseForeign, Message: f.words, At: &f.at, Begins: &snap, replay: v.replay,
			Why: fmt.Sprintf("entry %d (%s) was written by another version of etcd, and 3.7 cannot apply it; those behind the newest snapshot record, %d, are applied at each start",
				f.id.Index, f.typ, snap.Index)}, true
	}
	return v, false
}
