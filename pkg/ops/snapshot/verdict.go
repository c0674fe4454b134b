package snapshot

import "kvd/pkg/ops/spool"

// Verdict is what becomes of a file that is restored: by `etcdutl snapshot
// restore` and a server of this version.
type Verdict string

// The verdicts.
const (
	// Restorable: a restore takes it and a server starts on it, with
	// everything that was in it when it was saved.
	Restorable Verdict = "restorable"
	// Unproven: all that can be checked is well, but no hash says that the
	// values are what they were. A restore wants to be told to go without.
	Unproven Verdict = "restorable_unproven"
	// WithLoss: a restore that is told to skip the hash takes it, and
	// something is missing or changed.
	WithLoss Verdict = "restorable_with_loss"
	// NotRestorable: a restore refuses it, or the server ends or hangs.
	NotRestorable Verdict = "not_restorable"
)

// Words says it for people.
func (v Verdict) Words() string {
	switch v {
	case Restorable:
		return "restorable"
	case Unproven:
		return "restorable, unproven"
	case WithLoss:
		return "restorable with loss"
	}
	return "not restorable"
}

// Class names what a file is, or what happened to it.
type Class string

// The classes.
const (
	ClassWhole           Class = "whole"            // pages and hash are what they should be
	ClassRawCopy         Class = "raw_copy"         // a backend file, or a snapshot without its hash
	ClassNotASnapshot    Class = "not_a_snapshot"   // something else; the finding says what
	ClassPartialDownload Class = "partial_download" // only its beginning is there, by its length or name
	ClassTruncated       Class = "truncated"        // it ends before its last page
	ClassZeroTail        Class = "zero_filled_tail" // its length is right, and its end was never written
	ClassExtraBytes      Class = "extra_bytes"      // whole, with something behind it
	ClassHashMismatch    Class = "hash_mismatch"    // some bytes changed, and no structure shows which
	ClassBadPages        Class = "bad_pages"
	ClassBadRecords      Class = "bad_records"
	ClassMissing         Class = "missing_revisions" // well but for revisions that are not there
	ClassBadMeta         Class = "bad_meta_page"
	ClassBadFreelist     Class = "bad_freelist"
	ClassTornCopy        Class = "torn_copy"           // pages of different moments: copied from a running member
	ClassVersion         Class = "unsupported_version" // from an etcd that this one cannot follow
	ClassInUse           Class = "in_use"              // read while a server had it
	ClassBootFailed      Class = "boot_failed"         // a member was started on it, and did not do what it should
	ClassConverted       Class = "text_conversion"     // taken for text on its way
	ClassBadCompression  Class = "bad_compression"     // compressed, and it does not decompress
)

// Severity ranks findings.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"   // keeps a restore from working, or means loss
	SeverityWarning Severity = "warning" // needs a decision
	SeverityNote    Severity = "note"    // worth knowing before a restore
)

// Finding is one thing that was found in a file.
type Finding struct {
	Severity Severity `json:"severity"`
	Class    string   `json:"class"`
	Message  string   `json:"message"`
	Bucket   string   `json:"bucket,omitempty"`
	Page     *uint64  `json:"page,omitempty"`
	Offset   *int64   `json:"offset_bytes,omitempty"`
	// LostFrom and LostBefore bound the revisions that cannot be read because
	// of it (main/sub). An empty one is open.
	LostFrom   string `json:"lost_from_revision,omitempty"`
	LostBefore string `json:"lost_before_revision,omitempty"`
}

// Verification is the judgement over a file.
type Verification struct {
	File      string `json:"file"`
	SizeBytes int64  `json:"size_bytes"`
	// Packed is the file as it is stored, where that is compressed.
	Packed  *spool.Packed `json:"packed,omitempty"`
	Verdict Verdict       `json:"verdict"`
	Class   Class         `json:"class"`
	Summary string        `json:"summary"`
	Hint    string        `json:"hint,omitempty"`
	// ExpectedBytes is how long the file would be if it were whole, with its
	// hash; MissingBytes how much of that is not there.
	ExpectedBytes int64     `json:"expected_bytes,omitempty"`
	MissingBytes  int64     `json:"missing_bytes,omitempty"`
	ExtraBytes    int64     `json:"extra_bytes,omitempty"`
	DamagesFound  int64     `json:"damages_found"`
	Findings      []Finding `json:"findings"`
	// Content is what could be read. Nil where nothing could.
	Content *Status `json:"content,omitempty"`
	// Boot is what a member made of it, where one was started (VerifyBoot).
	Boot *BootCheck `json:"boot,omitempty"`
}
