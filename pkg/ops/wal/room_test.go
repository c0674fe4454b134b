package wal

import (
	"path/filepath"
	"strings"
	"testing"
)

// A file system without room is told, how much is too little depends on what has been
// allocated beforehand, and a log that lies by itself is a copy, for which the next segment
// matters elsewhere.
func TestRoom(t *testing.T) {
	t.Parallel()
	member, copied := filepath.Join(t.TempDir(), "member", "wal"), t.TempDir()
	for _, tc := range []struct {
		name     string
		dir      string
		room     room
		need     int64
		severity Severity // "" is that nothing is said
	}{
		{"much", member, room{bytes: 1 << 30, files: true}, segmentRoom, ""},
		{"just enough", member, room{bytes: segmentRoom, files: true}, segmentRoom, ""},
		{"too little for a segment", member, room{bytes: segmentRoom - 1, files: true}, segmentRoom, Warning},
		{"too little for a segment, which is there", member, room{bytes: 2 << 20, files: true}, 0, ""},
		{"too little for a segment, of a copy", copied, room{bytes: segmentRoom - 1, files: true}, segmentRoom, ""},
		{"nothing", member, room{files: true}, segmentRoom, Critical},
		{"nothing, but a segment is there", member, room{files: true}, 0, Critical},
		{"nothing, of a copy", copied, room{files: true}, segmentRoom, Critical},
		{"no inode", member, room{bytes: 1 << 30}, 0, Critical},
	} {
		x := exam{Verification: Verification{Dir: tc.dir, Verdict: Verdict{Outcome: Starts, Why: "the log is whole"}}}
		said := x.fullFor(tc.dir, tc.room, tc.need)
		f := x.Worst()
		if said != (f != nil) || (f == nil) != (tc.severity == "") || f != nil && (f.Severity != tc.severity || f.Cause != CauseDiskFull || !strings.Contains(f.Says, "no space left on device")) {
			t.Errorf("%s: %v, %+v", tc.name, said, x.Findings)
		}
		if hard := tc.severity == Critical; strings.Contains(x.Verdict.Why, "no room") != hard {
			t.Errorf("%s: %s", tc.name, x.Verdict.Why)
		}
	}
}
