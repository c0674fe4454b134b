package dbfile

import (
	"errors"
	"fmt"

	"kvd/pkg/ops/fault"
)

// The classes of damage: stable words that scripts and checks can rely on.
const (
	DamageNoMeta     = "no_valid_meta_page" // neither meta page is valid: nothing can be read
	DamageBeyondEnd  = "page_beyond_end"    // a page that the file is too short for
	DamagePointer    = "wild_pointer"       // a page number outside the file's pages
	DamageShared     = "page_shared"        // two references to a page, or a cycle
	DamageZeroPage   = "zero_page"          // nothing but zeros where a page is expected
	DamagePageID     = "wrong_page_id"      // a page that says it is another one
	DamagePageType   = "wrong_page_type"    // neither branch nor leaf, or not what belongs there
	DamageOverflow   = "wrong_page_length"  // a page longer or shorter than what is on it
	DamageElement    = "bad_element"        // an element that points outside its page
	DamageKeyOrder   = "key_order"          // keys that do not ascend, or lie outside their parent's range
	DamageDepth      = "tree_too_deep"      // more levels than there can be
	DamageBucket     = "bad_bucket"         // a bucket whose header makes no sense
	DamageFreelist   = "bad_freelist"       // a stored freelist that cannot be right
	DamageRevision   = "bad_revision"       // a record whose key is no revision
	DamageRecord     = "bad_record"         // a record that does not decode, or contradicts its key
	DamageUnreadable = "unreadable"         // the disk gave an error
)

// Damage is one thing that is wrong with a file.
type Damage struct {
	Class   string // one of the Damage constants
	Bucket  string // the bucket it is in, empty above the buckets
	Page    uint64
	Offset  int64 // in the file, of the page or the element
	Element int   // on that page, -1 for the page as a whole
	Msg     string

	// Lower and Upper bound what cannot be read because of it: keys from
	// Lower (inclusive) to Upper (exclusive) of that bucket. Nil is open.
	Lower, Upper []byte
	// Subtree says that Lower and Upper hold: a page could not be used, not
	// just one record.
	Subtree bool
	// Err is the error of the disk, for DamageUnreadable.
	Err error
}

// Error says what and where.
func (d *Damage) Error() string {
	where := fmt.Sprintf("page %d at offset %d", d.Page, d.Offset)
	if d.Element >= 0 {
		where = fmt.Sprintf("element %d of page %d at offset %d", d.Element, d.Page, d.Offset)
	}
	if d.Bucket != "" {
		where = fmt.Sprintf("bucket %q, %s", d.Bucket, where)
	}
	return where + ": " + d.Msg
}

// Unwrap returns the disk's error, if one is behind it.
func (d *Damage) Unwrap() error { return d.Err }

// AsDamage returns the Damage in err, if it holds one.
func AsDamage(err error) (*Damage, bool) {
	var d *Damage
	return d, errors.As(err, &d)
}

// stopped makes the error of a reader that had another job than looking for damage.
func (f *File) stopped(d *Damage) error {
	return &fault.Error{
		Kind: fault.Damage, Cause: d.Class, Op: "read", Subject: f.name, Err: d,
		Hint: "`kvd snapshot verify` names all that is damaged, and what is lost with it",
	}
}
