package wal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A listing says of each segment what a reading of all records says, and what is
// beside them; the folder stays as it was.
func TestList(t *testing.T) {
	data := t.TempDir()
	w := write(t, filepath.Join(data, "member", "wal"), 300, 2000, 4)
	for name, size := range map[string]int{"1.tmp": 7, "0000000000000001-0000000000000002.wal.broken": 5, "x.wal": 3, "notes": 2} {
		if err := os.WriteFile(filepath.Join(w.dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, beside := range []string{"wal.tmp", "wal.broken.20260101.000000.0", "snap"} {
		if err := os.Mkdir(filepath.Join(data, "member", beside), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	before := stats(t, w.dir)
	l, err := List(t.Context(), data)
	if err != nil || l.Err() != nil {
		t.Fatal(err, l.Err())
	}
	if after := stats(t, w.dir); !slices.Equal(before, after) {
		t.Errorf("the folder was %v and is %v", before, after)
	}
	info, err := Inspect(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	if l.Records != info.Records || l.Entries != info.Entries || l.Last != w.last || l.State != w.state || l.Used != info.Used || l.Bytes != info.Bytes ||
		l.Metadata != info.Metadata || l.Live != "" || len(l.Segments) != len(info.Segments) || len(l.Segments) < 5 {
		t.Errorf("%+v\nis not\n%+v", l, info)
	}
	entries, replaced, snaps := int64(0), int64(0), int64(0)
	for i, s := range l.Segments {
		entries, replaced, snaps = entries+s.Entries, replaced+s.Replaced, snaps+int64(len(s.Snaps))
		if !s.Chained || s.Cut != nil || s.Used > s.Segment.Bytes || i > 0 && s.Begins != l.Segments[i-1].Ends {
			t.Errorf("%+v", s)
		}
		if i > 0 && s.First.Index > s.Index { // less where it begins with a new leader's entries
			t.Errorf("%s begins with entry %d", s.Name, s.First.Index)
		}
	}
	if entries != info.Entries || snaps != info.Snapshots || uint64(entries-replaced) != w.last.Index {
		t.Errorf("%d entries, %d replaced, %d snapshots; last %d, %d snapshots", entries, replaced, snaps, w.last.Index, info.Snapshots)
	}
	var kinds []string
	for _, f := range l.Files {
		kinds = append(kinds, f.Kind)
		if f.Means == "" {
			t.Errorf("%+v", f)
		}
	}
	if want := []string{FileBroken, FilePrepared, FileUnknown, FileMisnamed, FileAside, FileCreating}; !slices.Equal(kinds, want) {
		t.Errorf("%v, want %v", kinds, want)
	}
}

// A pipe that is named like a segment is told, and not waited for.
func TestAPipeIsNoSegment(t *testing.T) {
	l := newLog(t)
	l.add(0, put("k", "v", 0))
	if err := syscall.Mkfifo(filepath.Join(l.dir, "0000000000000001-00000000000000ff.wal"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := List(t.Context(), l.dir); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Error(err)
	}
}
