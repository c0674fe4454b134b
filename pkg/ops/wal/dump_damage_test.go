package wal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"

	"kvd/pkg/ops/fault"
)

// Damage ends a dump with its place, behind all that stands before it; a record
// that is cut short is told and is no error.
func TestDumpOfDamage(t *testing.T) {
	l := newLog(t)
	for i := range 40 {
		l.add(uint64(i), put("k", strings.Repeat("v", 4000), 0))
	}
	var all []Record
	if err := Records(t.Context(), l.dir, func(r Record) error { r.Data = nil; all = append(all, r); return nil }); err != nil {
		t.Fatal(err)
	}
	middle, late, last := all[len(all)/2], all[len(all)-5], all[len(all)-1]
	for name, tc := range map[string]struct {
		at    Record
		harm  func(dir string)
		cause string
	}{
		"a bit":       {middle, func(dir string) { poke(t, dir, middle.File, middle.Offset+12, 1) }, string(BadCRC)},
		"an odd type": {middle, func(dir string) { poke(t, dir, middle.File, middle.Offset+9, 11) }, string(Unknown)},
		"a length lost": {middle, func(dir string) {
			for i := range int64(8) {
				poke(t, dir, middle.File, middle.Offset+i, at(t, dir, middle, i))
			}
		}, string(Hidden)},
		"the last length lost": {last, func(dir string) {
			for i := range int64(8) {
				poke(t, dir, last.File, last.Offset+i, at(t, dir, last, i))
			}
		}, string(Hidden)},
		"a length that leads behind the file": {late, func(dir string) { poke(t, dir, late.File, late.Offset+5, 1) }, string(Torn)},
		"the last cut":                        {last, func(dir string) { _ = os.Truncate(filepath.Join(dir, last.File), last.Offset+last.Size-3) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "wal")
			if err := os.CopyFS(dir, os.DirFS(l.dir)); err != nil {
				t.Fatal(err)
			}
			tc.harm(dir)
			before := 0
			for _, r := range all {
				if r.Type == EntryType && r.before(tc.at.Position) {
					before++
				}
			}
			lines, sum, err := dump(t, dir, nil)
			if len(lines) != before {
				t.Errorf("%d lines, want %d", len(lines), before)
			}
			if tc.cause == "" {
				if err != nil || sum.Torn == nil || sum.Torn.Position != tc.at.Position {
					t.Errorf("%v, torn %v", err, sum.Torn)
				}
				return
			}
			counts, serr := GatherStats(t.Context(), dir, DefaultStatsOptions())
			listed, lerr := List(t.Context(), dir)
			if lerr != nil || counts == nil || counts.Entries != int64(before) {
				t.Fatal(lerr, counts)
			}
			for who, err := range map[string]error{"dump": err, "stats": serr, "list": listed.Err()} {
				var d *Damage
				if !errors.As(err, &d) || fault.CauseOf(err) != tc.cause || d.Position != tc.at.Position {
					t.Errorf("%s: %v, want %s at %s", who, err, tc.cause, tc.at.Position)
				}
			}
		})
	}
}

// at is a byte of a record.
func at(t *testing.T, dir string, r Record, i int64) byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, r.File))
	if err != nil {
		t.Fatal(err)
	}
	return raw[r.Offset+i]
}

// followed is a log with its first entry, and what it takes to follow it: for a minute
// at most, or until stop.
func followed(t *testing.T) (l *logged, ctx context.Context, stop context.CancelFunc, o DumpOptions) {
	t.Helper()
	l = newLog(t)
	l.add(0, put("first", "v", 0))
	ctx, stop = context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	o = DefaultDumpOptions()
	o.Follow, o.Poll = true, time.Millisecond
	return l, ctx, stop, o
}

// A log that is written to is followed over the ends of its segments, each entry
// once, until the context ends.
func TestDumpFollow(t *testing.T) {
	l, ctx, cancel, o := followed(t)
	const total = 60
	var seen []uint64
	_, err := Dump(ctx, l.dir, o, func(line *Line) error {
		seen = append(seen, line.Index)
		switch n := len(seen); {
		case n == total:
			cancel()
		case n%3 == 1:
			for range 3 {
				l.add(l.next-1, put("more", strings.Repeat("v", 5000), 0))
			}
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for i, index := range seen {
		if index != uint64(i)+1 {
			t.Fatalf("%v", seen)
		}
	}
	if segments, _ := Segments(l.dir); len(seen) != total || len(segments) < 3 {
		t.Errorf("%d entries in %d segments", len(seen), len(segments))
	}
}

// A server that starts cuts off the torn end of its log and writes on there: what it
// writes is followed, in the place of what was read before.
func TestDumpFollowsARepair(t *testing.T) {
	l, ctx, cancel, o := followed(t)
	var seen []string
	_, err := Dump(ctx, l.dir, o, func(line *Line) error {
		seen = append(seen, fmt.Sprint(line.Index, " ", line.Replaces))
		switch len(seen) {
		case 1:
			l.add(0, put("b", "v", 0), put("c", "v", 0), put("d", "v", 0))
		case 4: // index 4, of which the disk keeps a part, is written anew, with two more
			if err := l.w.Close(); err != nil {
				return err
			}
			if err := os.Truncate(filepath.Join(l.dir, line.File), line.Offset+line.Size-5); err != nil {
				return err
			}
			if !etcdwal.Repair(zap.NewNop(), l.dir) {
				return errors.New("not repaired")
			}
			w, err := etcdwal.Open(zap.NewNop(), l.dir, &walpb.Snapshot{Index: new(uint64(0)), Term: new(uint64(0))})
			if err != nil {
				return err
			}
			if _, _, _, err := w.ReadAll(); err != nil {
				return err
			}
			l.w, l.next = w, 4
			l.add(3, put("e", "another", 0), put("f", "v", 0), put("g", "v", 0))
		case 7:
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	equal(t, seen, "1 false 2 false 3 false 4 false 4 true 5 false 6 false")
}

// A server removes segments that it no longer needs, whether or not they were read: a
// reader that was held up is told which entries it has missed.
func TestDumpFollowMissesNothingSilently(t *testing.T) {
	l, ctx, _, o := followed(t)
	var seen []uint64
	_, err := Dump(ctx, l.dir, o, func(line *Line) error {
		if seen = append(seen, line.Index); len(seen) > 1 {
			return nil
		}
		for range 90 {
			l.add(l.next-1, put("more", strings.Repeat("v", 5000), 0))
		}
		segments, err := Segments(l.dir)
		if err != nil || len(segments) < 5 {
			return fmt.Errorf("%d segments, %w", len(segments), err)
		}
		for _, s := range segments[1:3] {
			if err := os.Remove(filepath.Join(l.dir, s.Name)); err != nil {
				return err
			}
		}
		return nil
	})
	var e *fault.Error
	if !errors.As(err, &e) || e.Cause != "wal_purged" || !strings.Contains(e.Hint, "--index") {
		t.Errorf("after entries %v: %v", seen, err)
	}
	for i, index := range seen {
		if index != uint64(i)+1 {
			t.Errorf("%v", seen)
		}
	}
}

// What has no record that says whose it is, is no log, whoever looks.
func TestDumpOfWhatIsNoLog(t *testing.T) {
	t.Parallel()
	crc := []byte{4, 0, 0, 0, 0, 0, 0, 0x84, 8, 4, 16, 0, 0, 0, 0, 0}
	for name, raw := range map[string][]byte{"empty": {}, "zeros": make([]byte, 4096), "random": []byte(strings.Repeat("\x93\x11Zr", 500)), "its first record alone": append(crc, make([]byte, 512)...)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, Segment{}.canonical()), raw, 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := dump(t, dir, nil)
			_, serr := GatherStats(t.Context(), dir, DefaultStatsOptions())
			listed, lerr := List(t.Context(), dir)
			if lerr != nil {
				t.Fatal(lerr)
			}
			for who, err := range map[string]error{"dump": err, "stats": serr, "list": listed.Err()} {
				if fault.KindOf(err) != fault.Damage {
					t.Errorf("%s: %v", who, err)
				}
			}
		})
	}
}
