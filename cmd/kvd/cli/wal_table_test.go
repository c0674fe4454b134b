package cli

import (
	"strings"
	"testing"

	"kvd/pkg/ops/wal"
)

// The log of a member that joined late begins with a snapshot, and has no entry.
func TestLogWithoutAnEntry(t *testing.T) {
	l := wal.Listing{State: wal.HardState{Commit: 9}}
	l.Segments = []wal.SegmentListing{{Snaps: []wal.Mark{{}, {Snapshot: wal.Snapshot{Index: 9, Term: 2}}}}}
	var out strings.Builder
	if err := walListTable(l)(&out); err != nil || !strings.Contains(out.String(), "\nno entry behind the snapshot at 9 of term 2, commit 9, ") {
		t.Errorf("%s %v", out.String(), err)
	}
	l.Entries, l.Last = 3, wal.EntryID{Index: 12, Term: 2}
	if got := walEnd(l); got != "last entry 12 of term 2" {
		t.Error(got)
	}
	if got := nothingShown(wal.DumpSummary{}); !strings.Contains(got, "there is no entry in the log") {
		t.Error(got)
	}
	if got := nothingShown(wal.DumpSummary{Entries: 5, First: 8, Last: 12}); !strings.Contains(got, "5 in number, from index 8 to 12") {
		t.Error(got)
	}
}
