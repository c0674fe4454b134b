package snapshot

import (
	"strconv"

	"kvd/pkg/ops/spool"
)

// Status is what is in a snapshot or backend file. Numbers of a damaged file
// count what could be read.
type Status struct {
	File      string `json:"file"`
	SizeBytes int64  `json:"size_bytes"`
	// Packed is the file as it is stored, where that is compressed. All else is
	// about what is in it.
	Packed *spool.Packed `json:"packed,omitempty"`
	// InUseBytes is the size of the pages that are referred to, FreeBytes of
	// those that are not.
	InUseBytes int64 `json:"in_use_bytes"`
	FreeBytes  int64 `json:"free_bytes"`
	// FreelistPages is how many pages a stored freelist names; etcd stores none.
	FreelistPages *int64 `json:"freelist_pages,omitempty"`

	Integrity Integrity `json:"integrity"`
	Digests   Digests   `json:"digests"`

	// Revision is the current revision of a member that starts on the file.
	Revision        int64 `json:"revision"`
	CompactRevision int64 `json:"compact_revision"` // history up to here is gone; 0 where nothing was compacted
	// PendingCompactRevision is a compaction that a server asked for and did
	// not finish; the first start carries it out.
	PendingCompactRevision *int64 `json:"pending_compact_revision,omitempty"`

	Keys         int64 `json:"keys"`      // live ones
	Revisions    int64 `json:"revisions"` // records: every stored change of every key
	Tombstones   int64 `json:"tombstones"`
	LiveBytes    int64 `json:"live_bytes"`    // records of live keys, with their keys
	HistoryBytes int64 `json:"history_bytes"` // all other records
	// RevisionBumps counts the empty records that a restore with a higher
	// revision leaves behind.
	RevisionBumps int64 `json:"revision_bumps,omitempty"`

	Leases  Leases   `json:"leases"`
	Alarms  []Alarm  `json:"alarms"`
	Auth    Auth     `json:"auth"`
	Members []Member `json:"members"`
	// MembersRemoved counts the IDs that may never come back.
	MembersRemoved int64 `json:"members_removed"`

	ClusterVersion  string     `json:"cluster_version,omitempty"`
	StorageVersion  string     `json:"storage_version,omitempty"` // empty before 3.6
	Downgrade       *Downgrade `json:"downgrade,omitempty"`
	ConsistentIndex uint64     `json:"consistent_index"`
	Term            uint64     `json:"term"`
	Buckets         []string   `json:"buckets"`

	// Live names the server that holds the file, where it was read in spite
	// of that.
	Live string `json:"live,omitempty"`
}

// Integrity says how far the file can be trusted.
type Integrity struct {
	Class   Class     `json:"class"`
	Hash    HashState `json:"hash"`
	Message string    `json:"message"`
	// Manifest says what lies beside the file, and ManifestMessage what is wrong
	// with that.
	Manifest        ManifestState `json:"manifest,omitempty"`
	ManifestMessage string        `json:"manifest_message,omitempty"`
}

// Digests are the two digests of a file: of its bytes, and of what is in it.
type Digests struct {
	FileSHA256 string `json:"file_sha256"`             // of all bytes, as sha256sum shows it
	DataSHA256 string `json:"data_sha256,omitempty"`   // of the pages: what a snapshot has stored behind them
	Stored     string `json:"stored_sha256,omitempty"` // what is stored behind them
	KV         KVHash `json:"kv"`
}

// KVHash is the digest of keys and values that etcd's members compare with each
// other: what `etcdctl endpoint hashkv` shows for a member with this content.
type KVHash struct {
	Algorithm       string `json:"algorithm"` // "etcd-hashkv"
	Hash            uint32 `json:"hash"`
	Revision        int64  `json:"revision"`
	CompactRevision int64  `json:"compact_revision"`
}

// Leases says what leases are inside. After a restore each lives for its full
// TTL again, from the first election on.
type Leases struct {
	Count         int64 `json:"count"`
	Keys          int64 `json:"keys"` // live keys with a lease
	MaxTTLSeconds int64 `json:"max_ttl_seconds"`
	// KeysWithout are those of Keys whose lease is not in the file: they never expire.
	KeysWithout int64 `json:"keys_without_lease,omitempty"`
}

// Alarm is an alarm inside the file: a member that starts on it has it raised.
type Alarm struct {
	MemberID ID     `json:"member_id"`
	Type     string `json:"type"`
}

// Auth says whether a restored cluster asks for passwords. Names and password
// hashes are left out.
type Auth struct {
	Enabled  bool   `json:"enabled"`
	Revision uint64 `json:"revision"`
	Users    int64  `json:"users"`
	Roles    int64  `json:"roles"`
}

// Member is a member of the cluster that the file is from. A restore replaces them.
type Member struct {
	ID         ID       `json:"id"`
	Name       string   `json:"name"`
	Learner    bool     `json:"learner"`
	PeerURLs   []string `json:"peer_urls"`
	ClientURLs []string `json:"client_urls"`
}

// Downgrade is a downgrade of the cluster that was under way.
type Downgrade struct {
	Enabled       bool   `json:"enabled"`
	TargetVersion string `json:"target_version"`
}

// ID is a member's ID, hex in JSON as in etcd's logs.
type ID uint64

// String writes it in hex.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText writes it in hex.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads it.
func (id *ID) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 16, 64)
	*id = ID(n)
	return err
}
