package wal

import (
	"fmt"
	"strconv"
)

// ID is a member's or a cluster's ID, written as etcdctl writes it.
type ID uint64

// String is the ID in hex.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText is String, for JSON.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*id = ID(n)
	return err
}

// Type is the type of a record.
type Type int64

// The types of records (constants of the same names in server/storage/wal).
const (
	MetadataType Type = iota + 1
	EntryType
	StateType
	CRCType
	SnapshotType
)

// Position is where in the log something is.
type Position struct {
	File   string `json:"file"`         // name of the segment, without its folder
	Offset int64  `json:"offset_bytes"` // of the frame's first byte
}

func (p Position) String() string { return fmt.Sprintf("%s at offset %d", p.File, p.Offset) }

// CRC is a CRC-32C, written in hex as etcd writes it.
type CRC uint32

// String is the CRC in hex.
func (c CRC) String() string { return strconv.FormatUint(uint64(c), 16) }

// MarshalText is String, for JSON.
func (c CRC) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Record is one record. What it holds is in the field named after its type; the
// others are zero.
type Record struct {
	Position
	Size int64 // bytes of the frame: length, record and padding
	Type Type
	CRC  CRC    // as stored
	Data []byte // undecoded; valid until the callback returns, like Entry.Data

	Metadata Metadata
	Entry    Entry
	State    HardState
	Snapshot Snapshot
}

// Metadata says whose log it is.
type Metadata struct {
	Member  ID `json:"member_id"`
	Cluster ID `json:"cluster_id"`
}

// Entry is a raft entry.
type Entry struct {
	Term  uint64
	Index uint64
	Type  int32  // raftpb.EntryType: 0 normal, 1 and 2 a change of members
	Data  []byte // an etcdserverpb.InternalRaftRequest, if Type is 0; empty for a new leader's first entry
}

// HardState is what raft must not forget.
type HardState struct {
	Term   uint64 `json:"term"`
	Vote   ID     `json:"vote"`
	Commit uint64 `json:"commit"` // what the member knew to be committed when it last wrote entries
}

// Snapshot marks the state at an index as saved elsewhere: in the backend.
type Snapshot struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}
