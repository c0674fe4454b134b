package wal

import (
	"encoding/json"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// LeaseID is a lease's ID, written as etcdctl writes it.
type LeaseID int64

// String is the ID in hex.
func (id LeaseID) String() string { return strconv.FormatUint(uint64(id), 16) } //nolint:gosec // the same bits

// MarshalText is String, for JSON.
func (id LeaseID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// Compaction is a CompactionRequest.
type Compaction struct {
	Revision int64 `json:"revision"`
	Physical bool  `json:"physical,omitempty"`
}

func (c *Compaction) decode(b []byte) bool {
	return walk(b, func(num protowire.Number, v uint64) {
		switch num {
		case 1:
			c.Revision = int64(v) //nolint:gosec // an int64 on the wire
		case 2:
			c.Physical = v != 0
		}
	}, nil)
}

// Lease is a LeaseGrantRequest or a LeaseRevokeRequest.
type Lease struct {
	ID   LeaseID `json:"lease"`
	TTL  int64   `json:"ttl_seconds,omitempty"`
	Held []Held  `json:"held,omitempty"` // of a revoked lease: those of the keys asked for that it held
}

func (l *Lease) grant(b []byte) bool { return l.decode(b, 1, 2) }

func (l *Lease) revoke(b []byte) bool { return l.decode(b, 0, 1) }

func (l *Lease) decode(b []byte, ttl, id protowire.Number) bool {
	return walk(b, func(num protowire.Number, v uint64) {
		switch num {
		case ttl:
			l.TTL = int64(v) //nolint:gosec // an int64 on the wire
		case id:
			l.ID = LeaseID(v) //nolint:gosec // an int64 on the wire
		}
	}, nil)
}

// Checkpoint is what is left of a lease, as its leader tells the other members.
type Checkpoint struct {
	ID        LeaseID `json:"lease"`
	Remaining int64   `json:"remaining_ttl_seconds"`
}

// Checkpoints is the body of a LeaseCheckpointRequest.
type Checkpoints struct {
	Leases []Checkpoint `json:"leases"`
}

func (r *Request) checkpoints(b []byte) bool {
	ok := true
	whole := walk(b, func(protowire.Number, uint64) {}, func(num protowire.Number, v []byte) {
		if num != 1 || !ok {
			return
		}
		var l Lease
		ok = l.decode(v, 2, 1)
		r.Checkpoints = append(r.Checkpoints, Checkpoint{l.ID, l.TTL})
	})
	return whole && ok
}

// Alarm is an AlarmRequest.
type Alarm struct {
	Action string `json:"action"` // get, activate, deactivate
	Member ID     `json:"member_id"`
	Alarm  string `json:"alarm"` // none, nospace, corrupt
}

func (a *Alarm) decode(b []byte) bool {
	var action, alarm uint64
	ok := walk(b, func(num protowire.Number, v uint64) {
		switch num {
		case 1:
			action = v
		case 2:
			a.Member = ID(v)
		case 3:
			alarm = v
		}
	}, nil)
	a.Action, a.Alarm = enum(action, "get", "activate", "deactivate"), enum(alarm, "none", "nospace", "corrupt")
	return ok
}

// Version is what concerns the version of the whole cluster.
type Version struct {
	Version string `json:"version"`
	Enabled *bool  `json:"enabled,omitempty"` // of a downgrade
}

func (c *Version) decode(b []byte, downgrade bool) bool {
	enabled, at := false, protowire.Number(1)
	if downgrade {
		c.Enabled, at = &enabled, 2
	}
	return walk(b, func(num protowire.Number, v uint64) { enabled = num == 1 && v != 0 || num != 1 && enabled },
		func(num protowire.Number, v []byte) {
			if num == at {
				c.Version = string(v)
			}
		})
}

// Member is a change of the members, or what a member tells of itself.
type Member struct {
	Change     string   `json:"change,omitempty"` // add, remove, update, add_learner, promote
	ID         ID       `json:"member_id"`
	Name       string   `json:"name,omitempty"`
	PeerURLs   []string `json:"peer_urls,omitempty"`
	ClientURLs []string `json:"client_urls,omitempty"`
}

// confChange reads a raftpb.ConfChange. Its context is JSON
// (ConfigChangeContext in server/etcdserver/api/membership/cluster.go; that of
// an update is a Member).
func (m *Member) confChange(b []byte, id *uint64) bool {
	var change uint64
	var context []byte
	if !walk(b, func(num protowire.Number, v uint64) {
		switch num {
		case 1:
			*id = v
		case 2:
			change = v
		case 3:
			m.ID = ID(v)
		}
	}, func(num protowire.Number, v []byte) {
		if num == 4 {
			context = v
		}
	}) {
		return false
	}
	m.Change = enum(change, "add", "remove", "update", "add_learner")
	var said struct {
		Name       string   `json:"name"`
		PeerURLs   []string `json:"peerURLs"`
		ClientURLs []string `json:"clientURLs"`
		IsLearner  bool     `json:"isLearner"`
		IsPromote  bool     `json:"isPromote"`
	}
	if json.Unmarshal(context, &said) == nil {
		m.Name, m.PeerURLs, m.ClientURLs = said.Name, said.PeerURLs, said.ClientURLs
	}
	switch {
	case said.IsPromote:
		m.Change = "promote"
	case said.IsLearner && m.Change == "add":
		m.Change = "add_learner"
	}
	return true
}

// attributes reads a ClusterMemberAttrSetRequest (membership.proto).
func (m *Member) attributes(b []byte) bool {
	ok := true
	whole := walk(b, func(num protowire.Number, v uint64) {
		if num == 1 {
			m.ID = ID(v)
		}
	}, func(num protowire.Number, v []byte) {
		if num != 2 || !ok {
			return
		}
		ok = walk(v, func(protowire.Number, uint64) {}, func(num protowire.Number, v []byte) {
			switch num {
			case 1:
				m.Name = string(v)
			case 2:
				m.ClientURLs = append(m.ClientURLs, string(v))
			}
		})
	})
	return whole && ok
}

// V2 is a request to the store of the v2 API.
type V2 struct {
	Method  string `json:"method"`
	Path    string `json:"path"`
	Value   []byte `json:"-"` // see MarshalJSON
	Preview []byte `json:"-"`
}

// decode reads an etcdserverpb.Request as etcd 3.4 and 3.5 have it
// (etcdserver.proto: ID = 1, method = 2, path = 3, val = 4).
func (q *V2) decode(b []byte, id *uint64) bool {
	return walk(b, func(num protowire.Number, v uint64) {
		if num == 1 {
			*id = v
		}
	}, func(num protowire.Number, v []byte) {
		switch num {
		case 2:
			q.Method = string(v)
		case 3:
			q.Path = string(v)
		case 4:
			q.Value = v
		}
	})
}
