package wal

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// RequestType says what an entry asks for: the name of the field of
// etcdserverpb.InternalRaftRequest that is set, or one of the few below.
type RequestType string

// Types of what is no InternalRaftRequest, or none that is known.
const (
	NoRequest     RequestType = "noop"           // no data: the first entry of a new leader
	ConfChangeV1  RequestType = "conf_change"    // raftpb.ConfChange: a change of members
	ConfChangeV2  RequestType = "conf_change_v2" // raftpb.ConfChangeV2, which etcd never writes
	V2Request     RequestType = "v2"             // a request to the v2 store; etcd 3.4 and 3.5 tell their members that way
	UnknownType   RequestType = "unknown"        // a field that this decoder doesn't know: written by a newer etcd
	UndecodedType RequestType = "undecodable"    // no protobuf message: etcd panics on it
)

// Types that this package treats in a way of their own.
const (
	PutType             RequestType = "put"
	RangeType           RequestType = "range"
	DeleteRangeType     RequestType = "delete_range"
	TxnType             RequestType = "txn"
	CompactionType      RequestType = "compaction"
	LeaseGrantType      RequestType = "lease_grant"
	LeaseRevokeType     RequestType = "lease_revoke"
	LeaseCheckpointType RequestType = "lease_checkpoint"
	AlarmType           RequestType = "alarm"
	ClusterVersionType  RequestType = "cluster_version_set"
	MemberAttrType      RequestType = "cluster_member_attr_set"
	DowngradeType       RequestType = "downgrade_info_set"
)

const (
	firstAuth = 15 // rank of the first of those about users and roles
	lastRank  = 32
)

// requestType names a field of InternalRaftRequest (raft_internal.proto). Were
// several set, etcd would look at them in the order of rank (dispatch in
// server/etcdserver/apply/uber_applier.go).
func requestType(num protowire.Number) (t RequestType, rank int) {
	switch num {
	case 2:
		return V2Request, lastRank // until 3.5; reserved since
	case 1300:
		return ClusterVersionType, 2
	case 1301:
		return MemberAttrType, 3
	case 1302:
		return DowngradeType, 4
	case 9900:
		return "downgrade_version_test", 5
	case 3:
		return RangeType, 6
	case 4:
		return PutType, 7
	case 5:
		return DeleteRangeType, 8
	case 6:
		return TxnType, 9
	case 7:
		return CompactionType, 10
	case 8:
		return LeaseGrantType, 11
	case 9:
		return LeaseRevokeType, 12
	case 11:
		return LeaseCheckpointType, 13
	case 10:
		return AlarmType, 14
	}
	return authType(num)
}

func authType(num protowire.Number) (t RequestType, rank int) {
	switch num {
	case 1012:
		return "authenticate", firstAuth
	case 1000:
		return "auth_enable", 16
	case 1011:
		return "auth_disable", 17
	case 1013:
		return "auth_status", 18
	case 1100:
		return "auth_user_add", 19
	case 1101:
		return "auth_user_delete", 20
	case 1103:
		return "auth_user_change_password", 21
	case 1104:
		return "auth_user_grant_role", 22
	case 1102:
		return "auth_user_get", 23
	case 1105:
		return "auth_user_revoke_role", 24
	case 1200:
		return "auth_role_add", 25
	case 1203:
		return "auth_role_grant_permission", 26
	case 1202:
		return "auth_role_get", 27
	case 1204:
		return "auth_role_revoke_permission", 28
	case 1201:
		return "auth_role_delete", 29
	case 1106:
		return "auth_user_list", 30
	case 1107:
		return "auth_role_list", 31
	}
	return UnknownType, 0
}

// RequestTypes lists the names of all types.
func RequestTypes() []RequestType {
	out := []RequestType{NoRequest, ConfChangeV1, ConfChangeV2, UnknownType, UndecodedType}
	for _, span := range [][2]protowire.Number{{2, 11}, {1000, 1013}, {1100, 1107}, {1200, 1204}, {1300, 1302}, {9900, 9900}} {
		for num := span[0]; num <= span[1]; num++ {
			if t, rank := requestType(num); rank > 0 {
				out = append(out, t)
			}
		}
	}
	return out
}

// Request is what an entry asks of the server. What it holds beside ID and user
// is in the one field named after its type, see Body. Its bytes are those of the
// entry's Data, and Decode may be called on it again.
type Request struct {
	Type         RequestType
	ID           uint64 // chosen by the member that was asked; 0: none
	User         string // who was authenticated; empty without authentication
	AuthRevision uint64 // of the permissions when it was proposed; 0: none
	Unknown      []UnknownField

	KV          Op // of a put, range or delete_range
	Txn         Txn
	Compaction  Compaction
	Lease       Lease
	Checkpoints []Checkpoint
	Alarm       Alarm
	Auth        Auth
	Version     Version // cluster_version_set, downgrade_info_set, downgrade_version_test
	Member      Member  // conf_change, cluster_member_attr_set
	V2          V2

	raw     []byte // of the field that is set
	rank    int
	num     protowire.Number
	several bool // more than one was
}

// UnknownField is a field that a newer etcd wrote.
type UnknownField struct {
	Field int32 `json:"field"`
	Bytes int   `json:"bytes"`
}

// Decode reads an entry's data. What cannot be decoded becomes a request of
// UndecodedType; it is what an etcd 3.7.3 cannot decode either.
func (r *Request) Decode(e Entry) {
	*r = Request{Type: NoRequest, Unknown: r.Unknown[:0], Checkpoints: r.Checkpoints[:0],
		Txn: Txn{Compare: r.Txn.Compare[:0], Success: r.Txn.Success[:0], Failure: r.Txn.Failure[:0]}}
	ok := true
	switch {
	case e.Type == 1:
		r.Type = ConfChangeV1
		ok = r.Member.confChange(e.Data, &r.ID)
	case e.Type == 2:
		r.Type = ConfChangeV2
	case e.Type != 0:
		ok = false
	case len(e.Data) > 0:
		ok = r.internal(e.Data) && r.body()
	}
	if !ok {
		*r = Request{Type: UndecodedType}
	}
}

// internal reads an InternalRaftRequest. Where a field is there twice protobuf
// merges the two messages, which is what their bytes in a row mean.
func (r *Request) internal(b []byte) bool {
	r.Type = UnknownType
	whole, inHeader, method := b, uint64(0), []byte(nil)
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(num, typ, b[n:])
		if size < 0 {
			return false
		}
		field := b[n : n+size]
		b = b[n+size:]
		t, rank := requestType(num)
		r.several = r.several || r.rank > 0 && rank > 0
		if t == V2Request && typ == protowire.BytesType {
			method = message(field)
		}
		switch {
		case num == 1 && typ == protowire.VarintType:
			r.ID, _ = protowire.ConsumeVarint(field)
		case num == 100 && typ == protowire.BytesType:
			if !r.header(message(field), &inHeader) {
				return false
			}
		case rank == 0 || typ != protowire.BytesType:
			r.Unknown = append(r.Unknown, UnknownField{int32(num), size})
		case r.rank == 0 || rank < r.rank:
			r.Type, r.rank, r.num, r.raw = t, rank, num, message(field)
		case num == r.num:
			r.raw = append(bytes.Clone(r.raw), message(field)...)
		}
	}
	if isMethod(method) {
		return r.bare(whole)
	}
	if r.ID == 0 {
		r.ID = inHeader
	}
	return true
}

// message returns what is behind the length of a length-delimited field, whose
// length has been checked.
func message(field []byte) []byte {
	b, _ := protowire.ConsumeBytes(field)
	return b
}

// header reads a RequestHeader. Its ID counts where the request has none.
func (r *Request) header(b []byte, id *uint64) bool {
	return walk(b, func(num protowire.Number, v uint64) {
		switch num {
		case 1:
			*id = v
		case 3:
			r.AuthRevision = v
		}
	}, func(num protowire.Number, v []byte) {
		if num == 2 {
			r.User = string(v)
		}
	})
}

// bare reads what etcd 3.4 and 3.5 propose to the v2 store: a Request without an
// InternalRaftRequest around it, in which field 2 is a method.
func (r *Request) bare(b []byte) bool {
	*r = Request{Type: V2Request}
	return r.V2.decode(b, &r.ID)
}

func isMethod(b []byte) bool {
	switch string(b) {
	case "GET", "POST", "PUT", "DELETE", "QGET", "SYNC", "HEAD":
		return true
	}
	return false
}

// body decodes the field that is set.
func (r *Request) body() bool {
	switch r.Type {
	case PutType, RangeType, DeleteRangeType:
		r.KV = Op{Op: r.Type, Bytes: len(r.raw)}
		return r.KV.decode(r.raw)
	case TxnType:
		return r.Txn.decode(r.raw, maxDepth)
	case CompactionType:
		return r.Compaction.decode(r.raw)
	case LeaseGrantType:
		return r.Lease.grant(r.raw)
	case LeaseRevokeType:
		return r.Lease.revoke(r.raw)
	case LeaseCheckpointType:
		return r.checkpoints(r.raw)
	case AlarmType:
		return r.Alarm.decode(r.raw)
	case ClusterVersionType, DowngradeType, "downgrade_version_test":
		return r.Version.decode(r.raw, r.Type == DowngradeType)
	case MemberAttrType:
		return r.Member.attributes(r.raw)
	case V2Request:
		id := r.ID
		if !r.V2.decode(r.raw, &id) { // as unknown to etcd 3.7 as any
			r.Type, r.Unknown = UnknownType, append(r.Unknown, UnknownField{2, len(r.raw)})
			return true
		}
		r.ID = id
		return true
	case UnknownType:
		return true
	}
	return r.Auth.decode(r.Type, r.raw)
}

// Body is what the request holds, in the form that its JSON has: a *Op, *Txn and
// so on, or nil for a request that holds nothing.
func (r *Request) Body() any {
	switch r.Type {
	case PutType, RangeType, DeleteRangeType:
		op := r.KV
		op.Op = "" // the type says it
		return &op
	case TxnType:
		return &r.Txn
	case CompactionType:
		return &r.Compaction
	case LeaseGrantType, LeaseRevokeType:
		return &r.Lease
	case LeaseCheckpointType:
		return Checkpoints{r.Checkpoints}
	case AlarmType:
		return &r.Alarm
	case ClusterVersionType, DowngradeType, "downgrade_version_test":
		return &r.Version
	case MemberAttrType, ConfChangeV1:
		return &r.Member
	case V2Request:
		return &r.V2
	}
	if r.rank >= firstAuth && r.Auth != (Auth{}) {
		return &r.Auth
	}
	return nil
}
