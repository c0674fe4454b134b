package dbfile

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Lease is a record of the bucket "lease". The time it ends is not stored: a
// leader grants each lease its full TTL anew, or what remained of it where that is
// kept (RemainingTTL, which nobody here asks for).
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, lease/leasepb/lease.proto, storage/schema/lease.go.
type Lease struct {
	ID  int64
	TTL int64 // seconds
}

// ParseLease decodes a record of the bucket "lease".
func ParseLease(key, value []byte) (Lease, error) {
	var l Lease
	if len(key) != 8 {
		return l, fmt.Errorf("a lease ID of %d bytes, not 8", len(key))
	}
	var f field
	for b := value; len(b) > 0; {
		if b = f.next(b); b == nil {
			return l, errWire
		}
		switch {
		case f.typ != protowire.VarintType:
		case f.num == 1:
			l.ID = int64(f.n) //nolint:gosec // as etcd converts it
		case f.num == 2:
			l.TTL = int64(f.n) //nolint:gosec // as etcd converts it
		}
	}
	if id := int64(binary.BigEndian.Uint64(key)); l.ID != id { //nolint:gosec // as etcd converts it
		return l, fmt.Errorf("lease %016x is stored under %016x", uint64(l.ID), uint64(id)) //nolint:gosec // as etcd shows it
	}
	return l, nil
}

// Alarm is a record of the bucket "alarm".
type Alarm struct {
	MemberID uint64
	Type     string // "NOSPACE", "CORRUPT"
}

// ParseAlarm decodes a key of the bucket "alarm"; its values are empty.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/schema/alarm.go.
func ParseAlarm(key []byte) (Alarm, error) {
	var m etcdserverpb.AlarmMember
	err := proto.Unmarshal(key, &m)
	return Alarm{MemberID: m.MemberID, Type: m.Alarm.String()}, err
}

// Member is a record of the bucket "members".
type Member struct {
	ID         uint64   `json:"id"`
	Name       string   `json:"name"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"`
	IsLearner  bool     `json:"isLearner"`
}

// ParseMember decodes a record of the bucket "members": under the ID in hex, JSON.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/schema/membership.go, etcdserver/api/membership/member.go.
func ParseMember(key, value []byte) (Member, error) {
	var m Member
	id, err := ParseMemberID(key)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(value, &m); err != nil {
		return m, err
	}
	if m.ID != id {
		return m, fmt.Errorf("member %x is stored under %x", m.ID, id)
	}
	return m, nil
}

// ParseMemberID decodes a key of the buckets "members" and "members_removed".
func ParseMemberID(key []byte) (uint64, error) {
	id, err := strconv.ParseUint(string(key), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("member ID %q is no hex number", clip(key))
	}
	return id, nil
}

// The keys of the buckets "cluster" and "auth" (see also Meta).
const (
	ClusterVersionKey   = "clusterVersion" // text
	ClusterDowngradeKey = "downgrade"      // JSON
	AuthEnabledKey      = "authEnabled"    // one byte, 1 or 0
	AuthRevisionKey     = "authRevision"   // u64, big-endian
)

// Downgrade is the record "downgrade" of the bucket "cluster".
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, etcdserver/version/downgrade.go.
type Downgrade struct {
	TargetVersion string `json:"target-version"`
	Enabled       bool   `json:"enabled"`
}

// ParseDowngrade decodes it.
func ParseDowngrade(value []byte) (Downgrade, error) {
	var d Downgrade
	err := json.Unmarshal(value, &d)
	return d, err
}

// ParseAuthRevision decodes the record "authRevision" of the bucket "auth".
func ParseAuthRevision(value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("%s has %d bytes, not 8", AuthRevisionKey, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// CheckAuth checks that a record of the bucket "authUsers" or "authRoles" decodes,
// and says no more of it: one has the hash of a password in it.
func CheckAuth(bucket string, value []byte) error {
	if bucket == BucketAuthUsers {
		return proto.Unmarshal(value, new(authpb.User))
	}
	return proto.Unmarshal(value, new(authpb.Role))
}
