package wal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
)

// Of two files of one number the copy is named to be moved away, which is enough; a
// segment that is missing is named. Entries that stand in a copy were not replaced.
func TestSegmentsTwiceAndMissing(t *testing.T) {
	t.Parallel()
	w := write(t, filepath.Join(t.TempDir(), "wal"), 260, 900, 6)
	segments, err := Segments(w.dir)
	if err != nil || len(segments) < 5 {
		t.Fatal(segments, err)
	}
	whole, err := Verify(t.Context(), w.dir, VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	try := func(hurt func(dir string) error) (string, *Verification) {
		dir := filepath.Join(t.TempDir(), "wal")
		if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
			t.Fatal(err)
		}
		if err := hurt(dir); err != nil {
			t.Fatal(err)
		}
		v, said := judged(t, dir)
		if said != "" || v.Verdict.Outcome != Refuses {
			t.Fatalf("%+v: %s", v.Verdict, said)
		}
		return dir, v
	}
	second := segments[1].Name
	for _, stray := range []string{"0000000000000001-0000000000000fff.wal", second + ".bak.wal", second + " copy.wal"} {
		dir, v := try(func(dir string) error { return os.Link(filepath.Join(dir, second), filepath.Join(dir, stray)) })
		f := v.Worst()
		if !strings.Contains(f.Says, stray) || !strings.HasPrefix(f.Hint, "move "+stray+" out of the WAL folder") {
			t.Errorf("%s: %+v", stray, f)
		}
		if got, want := replacedEntries(v), replacedEntries(whole); got > want {
			t.Errorf("%d entries replaced, of %d", got, want)
		}
		if err := os.Remove(filepath.Join(dir, stray)); err != nil {
			t.Fatal(err)
		}
		if v, said := judged(t, dir); said != "" || v.Verdict.Outcome != Starts || v.Numbers != whole.Numbers {
			t.Errorf("%+v: %s", v.Verdict, said)
		}
	}
	for _, tc := range []struct {
		gone []int
		says string
	}{{[]int{2}, "segment 2 is missing between 1 and 3"}, {[]int{2, 3}, "segments 2 to 3 are missing between 1 and 4"}} {
		_, v := try(func(dir string) error {
			for _, i := range tc.gone {
				if err := os.Remove(filepath.Join(dir, segments[i].Name)); err != nil {
					return err
				}
			}
			return nil
		})
		if f := v.Worst(); !strings.Contains(f.Says, tc.says) || !strings.HasPrefix(f.Hint, "put back what is missing") {
			t.Errorf("%+v", f)
		}
	}
}

// replacedEntries is how many entries are said to have been replaced.
func replacedEntries(v *Verification) (n int) {
	for _, f := range v.Findings {
		if f.Cause == CauseReplaced {
			_, _ = fmt.Sscanf(f.Says, "%d", &n)
		}
	}
	return n
}

// A segment that cannot be opened is damage for who reads on behind it, and an error for
// who does not; a folder of which all segments are gone when they are, is an error.
func TestSegmentsGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "wal")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "0000000000000000-0000000000000000.wal")); err != nil {
		t.Fatal(err)
	}
	if v, err := Verify(t.Context(), dir, VerifyOptions{}); err != nil || v.Verdict.Outcome != Refuses || v.Verdict.Message != "no such file or directory" || v.Damaged != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if l, err := List(t.Context(), dir); err != nil || fault.CauseOf(l.Err()) != string(NotRead) || l.Damaged != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	if err := Records(t.Context(), dir, func(Record) error { return nil }); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.HintOf(err), "mount what it leads to") {
		t.Error(err)
	}
	if files, _, err := openAll(dir, nil); err == nil {
		t.Error(files)
	}
}
