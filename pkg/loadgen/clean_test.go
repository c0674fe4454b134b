package loadgen

import (
	"testing"

	"kvd/pkg/ops/fault"
)

// A clean-up that ends in the middle has done a part.
func TestCleanCutShort(t *testing.T) {
	gone := &fault.Error{Kind: fault.Unavailable, Msg: "gone"}
	if err := (&CleanReport{}).cutShort(gone); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("nothing was deleted: %v", err)
	}
	if err := (&CleanReport{Keys: 500}).cutShort(gone); fault.KindOf(err) != fault.Partial {
		t.Errorf("500 keys were deleted: %v", err)
	}
	if err := (&CleanReport{Keys: 500}).cutShort(&fault.Error{Kind: fault.Interrupted, Msg: "Ctrl-C"}); fault.KindOf(err) != fault.Interrupted {
		t.Errorf("by hand: %v", err)
	}
}
