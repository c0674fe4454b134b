package wal

import (
	"fmt"

	"kvd/pkg/ops/fault"
)

// Class is a kind of damage, by what etcd does about it.
type Class string

// The classes of damage.
const (
	Torn     Class = "torn"           // the file ends within a record, or a sector of the last record was never written
	BadCRC   Class = "crc_mismatch"   // a record is not what was written
	Broken   Class = "undecodable"    // a record is no protobuf message
	BadData  Class = "bad_content"    // a record is in order, but not what it holds
	Unknown  Class = "unknown_type"   // a record of a type that etcd does not know
	BadChain Class = "broken_chain"   // a segment does not go on where the one before it ended
	Conflict Class = "other_metadata" // two members' logs in one folder
	Hidden   Class = "zero_length"    // a length of 0, which ends a segment, and data behind it
	NotRead  Class = "unreadable"     // the system does not give the file, or what is at some place of it
	Nobody   Class = "no_metadata"    // no record says whose log it is, as the second of each segment does
)

// Damage is where a log cannot be read on, and why. It is the Err of the
// *fault.Error that Records returns.
type Damage struct {
	Class Class `json:"class"`
	Position
	Last bool   `json:"in_last_segment"` // where etcd writes on
	Why  string `json:"why"`

	StoredCRC   *CRC `json:"stored_crc,omitempty"` // of a CRC that does not fit
	ComputedCRC *CRC `json:"computed_crc,omitempty"`

	inFlight bool   // a running server is just writing the record: it is the last one
	system   string // what the system says, where it does not give the file
	resumed  bool   // records follow: no write was cut short, but a length is not what was written
}

func (d *Damage) Error() string { return fmt.Sprintf("offset %d: %s", d.Offset, d.Why) }

// Repaired reports damage that etcd repairs by itself when it starts: it cuts
// the last segment off at Offset and keeps a copy of it as FILE.broken
// (server/storage/wal/repair.go).
func (d *Damage) Repaired() bool { return d.Class == Torn && d.Last }

// cutShort reports a last record that was not written whole: the log ends before it, and
// is sound.
func (d *Damage) cutShort() bool { return d.Repaired() && !d.resumed }

// continues notes where records begin again behind a record that is not whole.
func (d *Damage) continues(at Position) {
	if !d.resumed {
		d.resumed = true
		d.Why += fmt.Sprintf("; but at offset %d records begin again, so that it is a length that is damaged", at.Offset)
	}
}

func (d *Damage) fault() error {
	hint := "etcd does not start on this; `kvd wal verify` reads on behind it, and says what to do; keep a copy of the folder"
	switch {
	case d.resumed:
		hint = "copy the folder before anything else: etcd cuts the file off there when it starts, and what is behind it is lost; `kvd wal verify` reads on behind it"
	case d.Class == NotRead:
		hint = "`kvd wal verify` says what is in the other segments, and what to do"
	case d.Class == Nobody:
		hint = "`kvd wal verify` says what a start makes of it"
	case d.Repaired():
		hint = "a write that was cut short: etcd cuts the file off there by itself when it starts"
	case d.Class == Hidden && d.Last:
		hint = "copy the folder before anything else: etcd fills it with zeros from there on when it starts, without a word; `kvd wal verify` says what is lost"
	}
	return &fault.Error{Kind: fault.Damage, Cause: string(d.Class), Op: "read the WAL", Subject: d.File, Hint: hint, Err: d}
}
