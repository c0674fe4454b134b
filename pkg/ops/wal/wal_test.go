package wal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
)

// Every record of logs that etcd wrote is read as etcd reads it, and nothing in
// the folder is touched.
func TestSameAsEtcd(t *testing.T) {
	for _, tc := range []struct{ saves, max int }{{1, 0}, {40, 100}, {300, 2000}, {12, 150_000}} {
		t.Run(fmt.Sprintf("%d saves of up to %d bytes", tc.saves, tc.max), func(t *testing.T) {
			data := t.TempDir()
			w := write(t, filepath.Join(data, "member", "wal"), tc.saves, tc.max, uint64(tc.max))
			if said := disagree(load(t, w.dir)...); said != "" {
				t.Error(said)
			}
			before := stats(t, w.dir)
			for _, dir := range []string{data, filepath.Join(data, "member"), w.dir} {
				info, err := Inspect(t.Context(), dir)
				if err != nil {
					t.Fatal(err)
				}
				if info.Member != 0x8e9e05c52164694d || info.Cluster != 0xcdf818194e3a8c32 || info.Dir != w.dir {
					t.Errorf("the log of %s of %s in %s", info.Member, info.Cluster, info.Dir)
				}
				if info.First != (EntryID{1, 2}) || info.Last != w.last || info.State != w.state || info.Entries != w.entries {
					t.Errorf("entries %v to %v (%d), state %+v; written %+v", info.First, info.Last, info.Entries, info.State, w)
				}
				if info.Torn != nil || info.Hidden != nil || info.Used > info.Bytes || info.End.Offset == 0 {
					t.Errorf("%+v", info)
				}
				if want := uint64(0); tc.saves >= 29 {
					if info.Snapshots != int64(1+tc.saves/29) || info.Newest.Index == 0 || info.Newest.Index > info.State.Commit {
						t.Errorf("snapshots %d, newest %+v", info.Snapshots, info.Newest)
					}
				} else if info.Newest.Index != want || info.Snapshots != 1 {
					t.Errorf("snapshots %d, newest %+v", info.Snapshots, info.Newest)
				}
				if many := tc.saves*tc.max > 500_000; many != (len(info.Segments) > 4) {
					t.Errorf("%d segments", len(info.Segments))
				}
			}
			if after := stats(t, w.dir); !slices.Equal(before, after) {
				t.Errorf("the folder was %v and is %v", before, after)
			}
		})
	}
}

func stats(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(info.Name(), info.Size(), info.ModTime().UnixNano()))
	}
	return out
}

// A log cut off at any byte, and one with any bit flipped, is judged as etcd's
// decoder judges it: never a panic, never sound where etcd finds damage.
func TestDamageAsEtcd(t *testing.T) {
	w := write(t, filepath.Join(t.TempDir(), "wal"), 75, 900, 5)
	segments := load(t, w.dir)
	tail := segments[len(segments)-1]
	if len(segments) != 2 {
		t.Fatalf("%d segments, want 2", len(segments))
	}
	info, err := Inspect(t.Context(), w.dir)
	if err != nil {
		t.Fatal(err)
	}
	end := int(info.End.Offset)
	torn, from := 0, max(0, end-600)
	for cut := from; cut < end; cut++ {
		if said := disagree(tail[:cut]); said != "" {
			t.Fatalf("cut at %d of %d: %s", cut, end, said)
		}
		if _, err := byUs(tail[:cut]); damageOf(err) == Torn {
			torn++
		}
	}
	if records := 40; end < 500 || torn < end-from-records { // all but those between two records
		t.Errorf("%d of %d cuts were torn records", torn, end-from)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	classes := map[Class]int{}
	for i := range 200 {
		k, how := rnd.IntN(len(segments)), rnd.IntN(3)
		at := rnd.IntN(min(len(segments[k]), end))
		if i == 0 { // the CRC that the second segment begins with
			k, at, how = 1, lengthBytes+3, 0
		}
		seg := segments[k]
		broken := slices.Clone(seg)
		switch how {
		case 0:
			broken[at] ^= 1 << rnd.IntN(8)
		case 1:
			clear(broken[at:min(len(broken), at+1200)])
		case 2: // a length
			binary.LittleEndian.PutUint64(broken[at/8*8:], rnd.Uint64())
		}
		segments[k] = broken
		if said := disagree(segments...); said != "" {
			t.Fatalf("segment %d of %d, byte %d: %s", k, len(segments), at, said)
		}
		_, err := byUs(segments...)
		classes[damageOf(err)]++
		segments[k] = seg
	}
	for _, c := range []Class{Torn, BadCRC, BadChain, Broken} {
		if classes[c] == 0 {
			t.Errorf("no damage of class %s among %v", c, classes)
		}
	}
}

// A length that became false is believed only as far as what is behind it is a
// record of that length: no memory is asked for otherwise. Records that are as long
// as they say are read whole.
func TestLongLengthsAsEtcd(t *testing.T) {
	w := write(t, filepath.Join(t.TempDir(), "wal"), 2, 3<<20, 3)
	if said := disagree(load(t, w.dir)...); said != "" {
		t.Error(said)
	}
	w = write(t, filepath.Join(t.TempDir(), "wal"), 12, 900, 4)
	seg := load(t, w.dir)[0]
	first := int(binary.LittleEndian.Uint64(seg)&(1<<56-1)+7)/8*8 + lengthBytes // behind the record of the CRC
	rest := make([]byte, 24<<20)
	for i := range rest {
		rest[i] = 0xab
	}
	for _, zeros := range []bool{false, true} {
		if zeros {
			clear(rest[10<<20 : 10<<20+2*sectorBytes])
		}
		for _, b := range []struct {
			at    int
			value byte
		}{{2, 0x12}, {2, 0xff}, {3, 1}} {
			broken := slices.Concat(seg, rest)
			broken[first+b.at] = b.value
			for _, segments := range [][][]byte{{broken}, {broken, seg}} {
				if said := disagree(segments...); said != "" {
					t.Errorf("byte %d is %#x, with zeros %v, %d segments: %s", b.at, b.value, zeros, len(segments), said)
				}
			}
			var r reader
			defer r.close()
			r.open(Segment{Name: "a"}, bytes.NewReader(broken), int64(len(broken)), true)
			var rec Record
			for r.next(&rec) == nil {
			}
			if r.off != int64(first) || cap(r.long) > 2*chunk {
				t.Errorf("byte %d is %#x: stopped at %d instead of %d, and holds %d bytes", b.at, b.value, r.off, first, cap(r.long))
			}
		}
	}
}

func damageOf(err error) Class {
	var d *Damage
	if errors.As(err, &d) {
		return d.Class
	}
	return ""
}

// Damage is said with its file and offset; what stands before it is there.
func TestWhere(t *testing.T) {
	w := write(t, filepath.Join(t.TempDir(), "wal"), 150, 900, 9)
	segments, err := Segments(w.dir)
	if err != nil || len(segments) < 3 {
		t.Fatal(segments, err)
	}
	var all []Record
	if err := Records(t.Context(), w.dir, func(r Record) error { r.Data = nil; all = append(all, r); return nil }); err != nil {
		t.Fatal(err)
	}
	last := all[len(all)-1]
	middle := all[len(all)/2]
	for i := len(all) / 2; middle.Type != EntryType || middle.Size < 400; i++ {
		middle = all[i]
	}
	for _, tc := range []struct {
		name   string
		at     Record
		change func(t *testing.T, dir string)
		class  Class
	}{
		{"one bit in an older segment", middle, func(t *testing.T, dir string) { poke(t, dir, middle.File, middle.Offset+200, 1) }, BadCRC},
		{"the last record cut", last, func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, last.File), last.Offset+last.Size-3); err != nil {
				t.Fatal(err)
			}
		}, Torn},
		{"a segment missing", Record{Position: Position{File: segments[2].Name}}, func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, segments[1].Name)); err != nil {
				t.Fatal(err)
			}
		}, BadChain},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "wal")
			if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
				t.Fatal(err)
			}
			tc.change(t, dir)
			n := 0
			err := Records(t.Context(), dir, func(Record) error { n++; return nil })
			var d *Damage
			if !errors.As(err, &d) || fault.KindOf(err) != fault.Damage || fault.CauseOf(err) != string(tc.class) || d.Position != tc.at.Position {
				t.Fatalf("%v, want %s at %s", err, tc.class, tc.at.Position)
			}
			want := slices.IndexFunc(all, func(r Record) bool { return r.Position == tc.at.Position })
			if tc.class == BadChain {
				want = slices.IndexFunc(all, func(r Record) bool { return r.File == segments[1].Name })
			}
			if n != want {
				t.Errorf("%d records before the damage, want %d", n, want)
			}
			info, err := Inspect(t.Context(), dir)
			if repaired := tc.class == Torn; repaired != (err == nil) || repaired != (info.Torn != nil) || info.Records != int64(want) {
				t.Errorf("%v, torn %v, %d records", err, info.Torn, info.Records)
			}
		})
	}
}

func poke(t *testing.T, dir, file string, at int64, xor byte) {
	t.Helper()
	path := filepath.Join(dir, file)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= xor
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A length of zero ends the log by its format; what stands behind it is said.
func TestHidden(t *testing.T) {
	w := write(t, filepath.Join(t.TempDir(), "wal"), 20, 300, 2)
	var all []Record
	if err := Records(t.Context(), w.dir, func(r Record) error { all = append(all, r); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, k := range []int{5, 12, len(all) - 2} {
		dir := filepath.Join(t.TempDir(), "wal")
		if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, all[k].File), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(make([]byte, 8), all[k].Offset); err != nil {
			t.Fatal(err)
		}
		f.Close()
		info, err := Inspect(t.Context(), dir)
		if err != nil || info.Records != int64(k) || info.End != all[k].Position || info.Hidden == nil || info.Hidden.Offset != all[k].Offset+8 {
			t.Errorf("record %d: %v, %d records, end %s, hidden %v", k, err, info.Records, info.End, info.Hidden)
		}
		if m := Judge(&info, Backend{ConsistentIndex: 1}); len(m) != 1 || m[0].Cause != HiddenData {
			t.Errorf("record %d: judged %+v", k, m)
		}
	}
}

// What is no log, or cannot be read, is an error with its cause; reading ends
// with its context and with the callback's own error.
func TestNotRead(t *testing.T) {
	empty := t.TempDir()
	w := write(t, filepath.Join(t.TempDir(), "wal"), 3, 30, 2)
	done, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	for _, tc := range []struct {
		ctx   context.Context
		dir   string
		cause string
	}{
		{t.Context(), empty, CauseNoWAL},
		{t.Context(), filepath.Join(empty, "nowhere"), "no_such_file"},
		{done, w.dir, ""},
	} {
		if info, err := Inspect(tc.ctx, tc.dir); err == nil || fault.CauseOf(err) != tc.cause {
			t.Errorf("%s: %+v, %v", tc.dir, info, err)
		}
	}
	if err := Records(t.Context(), w.dir, func(Record) error { return fs.ErrClosed }); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

// Segments that a server removes while the log is read are read all the same, and
// those that it has removed just before are not missed.
func TestPurgedMeanwhile(t *testing.T) {
	w := write(t, filepath.Join(t.TempDir(), "wal"), 150, 900, 9)
	segments, err := Segments(w.dir)
	if err != nil || len(segments) < 3 {
		t.Fatal(segments, err)
	}
	entries := int64(0)
	if err := Records(t.Context(), w.dir, func(r Record) error {
		if r.Type == EntryType {
			entries++
		}
		return errors.Join(ignoreGone(os.Remove(filepath.Join(w.dir, segments[0].Name))), ignoreGone(os.Remove(filepath.Join(w.dir, segments[1].Name))))
	}); err != nil || entries != w.entries {
		t.Errorf("%d entries of %d, %v", entries, w.entries, err)
	}
	files, left, err := openAll(w.dir, segments)
	if err != nil || len(files) != len(left) || !slices.Equal(left, segments[2:]) {
		t.Errorf("%v, %v", left, err)
	}
	for _, f := range files {
		f.Close()
	}
	if files, _, err = openAll(w.dir, append(segments[2:], segments[0])); err == nil {
		t.Error("a segment that is missing in the middle was not missed")
	}
	for _, f := range files {
		f.Close()
	}
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Foreign bytes give what etcd's decoder gives, and never a panic.
func FuzzRecords(f *testing.F) {
	w := write(f, filepath.Join(f.TempDir(), "wal"), 12, 700, 3)
	for _, s := range load(f, w.dir) {
		s = s[:min(len(s), 6000)]
		f.Add(s)
		f.Add(s[:len(s)/2])
	}
	f.Add([]byte{})
	f.Add([]byte{8, 0, 0, 0, 0, 0, 0, 0x84, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, segment []byte) {
		if said := disagree(segment); said != "" {
			t.Fatal(said)
		}
	})
}
