package wal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recordsOf reads a log's records without their data.
func recordsOf(t *testing.T, dir string) (all []Record) {
	t.Helper()
	if err := Records(t.Context(), dir, func(r Record) error { r.Data, r.Entry.Data = nil, nil; all = append(all, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// A repair looks at the last segment alone, and only as far as the first record of it
// that is not whole: what is behind that does not matter to it.
func TestVerdictOfARepairThatEndsEarly(t *testing.T) {
	t.Parallel()
	w := write(t, filepath.Join(t.TempDir(), "wal"), 260, 900, 6)
	all := recordsOf(t, w.dir)
	last := all[len(all)-1].File
	large := func(r Record) bool { return r.Type == EntryType && r.Size > 300 }
	older := all[slices.IndexFunc(all, large)]
	var newer []Record
	for _, r := range all {
		if large(r) && r.File == last {
			newer = append(newer, r)
		}
	}
	poke(t, w.dir, older.File, older.Offset+4, 1)       // torn
	poke(t, w.dir, newer[0].File, newer[0].Offset+4, 1) // torn
	poke(t, w.dir, newer[5].File, newer[5].Offset+200, 1)
	if v, said := judged(t, w.dir); said != "" || v.Damaged != 3 || !strings.Contains(v.Verdict.Message, "cannot be repaired") {
		t.Errorf("%d damages, %+v: %s", v.Damaged, v.Verdict, said)
	}
}

// Where the oldest segment begins with a length of 0, a start passes over the whole of it,
// and takes what the next one says of the CRC as it is.
func TestVerdictOfAnOldestSegmentThatIsPassedOver(t *testing.T) {
	t.Parallel()
	w := write(t, filepath.Join(t.TempDir(), "wal"), 260, 900, 6)
	segments, err := Segments(w.dir)
	if err != nil || len(segments) < 4 {
		t.Fatal(segments, err)
	}
	first := func(seg Segment) (at []int64) {
		for _, r := range recordsOf(t, w.dir) {
			if r.File == seg.Name {
				at = append(at, r.Offset)
			}
		}
		return at
	}
	for name, tc := range map[string]struct {
		removed int
		record  int
		bytes   int
		want    Outcome
	}{
		"its first length":                     {0, 0, 8, Starts},
		"its first sector":                     {0, 0, 512, Starts},
		"its second length, behind a CRC of 0": {0, 1, 8, Starts},
		"its third length":                     {0, 2, 8, Refuses},
		"the first length of what is left":     {1, 0, 8, Starts},
		"the second length of what is left":    {1, 1, 8, Refuses},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "wal")
			if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
				t.Fatal(err)
			}
			for _, s := range segments[:tc.removed] {
				if err := os.Remove(filepath.Join(dir, s.Name)); err != nil {
					t.Fatal(err)
				}
			}
			at := first(segments[tc.removed])[tc.record]
			path := filepath.Join(dir, segments[tc.removed].Name)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			clear(raw[at : at+int64(tc.bytes)])
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			v, said := judged(t, dir)
			if said != "" || v.Verdict.Outcome != tc.want {
				t.Errorf("%+v, want %s: %s", v.Verdict, tc.want, said)
			}
			if tc.want == Starts && v.Member != 0x8e9e05c52164694d {
				t.Errorf("the log is member %s's", v.Member)
			}
			if f := v.Worst(); tc.want == Starts && (f == nil || f.Cause != CausePassedOver) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// etcd looks for a log in the member's WAL folder alone: a file in .wal elsewhere in the
// data directory is nothing to it.
func TestAFileInTheDataDirectoryIsNoLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := filepath.Join(dir, "member", "snap", "db")
	if err := errors.Join(os.MkdirAll(filepath.Dir(db), 0o700), os.WriteFile(db, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		look, file string
		want       Outcome
	}{
		{"", "saved.wal", Starts},
		{"", "wal/saved.wal", Starts},
		{"member", "member/saved.wal", Starts},
		{"", "member/wal/saved.wal", Refuses},
		{"member", "member/wal/saved.wal", Refuses},
		{"member/wal", "member/wal/saved.wal", Refuses},
	} {
		path := filepath.Join(dir, tc.file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
		v, err := Verify(t.Context(), filepath.Join(dir, tc.look), VerifyOptions{})
		if err != nil || v.Verdict.Outcome != tc.want {
			t.Errorf("%s, looked at in %q: %+v, %v", tc.file, tc.look, v, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
