package wal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"

	"kvd/pkg/ops/fault"
)

// started is what etcd's code for a start did with a log.
type started struct {
	outcome Outcome
	last    uint64
	why     string
}

// startEtcd does with a WAL folder what a start does (bootstrap.go), with etcd's
// own code.
func startEtcd(tb testing.TB, dir string) (out started) {
	tb.Helper()
	defer func() {
		if p := recover(); p != nil {
			out = started{Refuses, 0, fmt.Sprint(p)}
		}
	}()
	snaps, err := etcdwal.ValidSnapshotEntries(zap.NewNop(), dir)
	if err != nil {
		return started{Refuses, 0, err.Error()}
	}
	snap := &walpb.Snapshot{}
	if len(snaps) > 0 {
		snap = snaps[len(snaps)-1]
	}
	out.outcome = Starts
	for {
		w, err := etcdwal.Open(zap.NewNop(), dir, snap)
		if errors.Is(err, fileutil.ErrLocked) { // by a process that another test is just starting, for a moment
			continue
		}
		if err != nil {
			return started{Refuses, 0, err.Error()}
		}
		w.SetUnsafeNoFsync()
		before := nonZero(tb, dir)
		_, _, ents, err := w.ReadAll()
		w.Close()
		switch {
		case err == nil:
			out.last = snap.GetIndex() + uint64(len(ents))
			if nonZero(tb, dir) != before {
				out.outcome = Drops
			}
			return out
		case out.outcome == Repairs, !errors.Is(err, io.ErrUnexpectedEOF):
			return started{Refuses, 0, "failed to read WAL, cannot be repaired: " + err.Error()}
		case !etcdwal.Repair(zap.NewNop(), dir):
			return started{Refuses, 0, "failed to repair WAL: " + err.Error()}
		}
		out.outcome = Repairs
	}
}

// nonZero counts the bytes of the last segment that are not zero.
func nonZero(tb testing.TB, dir string) (n int) {
	tb.Helper()
	segments := load(tb, dir)
	for _, b := range segments[len(segments)-1] {
		if b != 0 {
			n++
		}
	}
	return n
}

// judged compares the verdict on a log with what etcd's code does, and how the
// folder was before.
func judged(tb testing.TB, dir string) (v *Verification, said string) {
	tb.Helper()
	before := load(tb, dir)
	v, err := Verify(tb.Context(), dir, VerifyOptions{})
	if err != nil {
		return nil, err.Error()
	}
	if !slices.EqualFunc(before, load(tb, dir), slices.Equal) {
		return v, "it wrote"
	}
	got, want := v.Verdict, startEtcd(tb, dir)
	ofRaft := got.cause == CauseCommit || got.cause == CauseNoSnapshot // of which raft complains, and not the log
	if ofRaft && want.outcome != Refuses {
		got.Outcome = want.outcome
	}
	if got.Outcome != want.outcome || want.outcome != Refuses && !ofRaft && v.Numbers.Last.Index != want.last {
		return v, fmt.Sprintf("verdict %s (%s), last %d; etcd: %+v", v.Verdict.Outcome, v.Verdict.Why, v.Numbers.Last.Index, want)
	}
	switch {
	case v.Verdict.Outcome != Starts && v.Worst() == nil:
		return v, "nothing to say about it"
	case got.Outcome == Refuses && !strings.Contains(want.why, got.Message):
		return v, fmt.Sprintf("it is to say %q, and says %q", got.Message, want.why)
	case got.Outcome == Repairs && !ofRaft:
		info, err := os.Stat(filepath.Join(dir, got.At.File))
		if err != nil || info.Size() != got.At.Offset {
			return v, fmt.Sprintf("to be cut at %s: %v, %v", got.At, info, err)
		}
	}
	return v, ""
}

// A log that is cut anywhere, and one of which anything was changed, is judged as
// etcd's own code for a start then finds it.
func TestVerdictsAsEtcd(t *testing.T) {
	t.Parallel()
	cutAndChange(t, 701, 80)
}

// cutAndChange cuts the log at every step-th byte of its last 64 KiB, and damages
// it at random.
func cutAndChange(t *testing.T, step, changes int) {
	t.Helper()
	w := write(t, filepath.Join(t.TempDir(), "wal"), 260, 900, 5)
	segments := load(t, w.dir)
	info, err := Inspect(t.Context(), w.dir)
	if err != nil || len(segments) < 5 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	names, end := info.Segments, int(info.End.Offset)
	outcomes := map[Outcome]int{}
	try := func(name string, segment int, changed []byte) {
		dir := filepath.Join(t.TempDir(), "wal")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for i, raw := range segments {
			if i == segment {
				raw = changed
			}
			if err := os.WriteFile(filepath.Join(dir, names[i].Name), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		v, said := judged(t, dir)
		if said != "" {
			t.Fatalf("%s: %s", name, said)
		}
		outcomes[v.Verdict.Outcome]++
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	last := len(segments) - 1
	for at := max(0, end-64<<10); at < end; at += step {
		try(fmt.Sprintf("cut at %d of %d", at, end), last, segments[last][:at])
	}
	rnd := rand.New(rand.NewPCG(3, 1))
	for range changes {
		i := rnd.IntN(len(segments))
		raw := slices.Clone(segments[i])
		at := rnd.IntN(min(len(raw), int(info.Segments[i].Bytes)))
		if i == last {
			at = rnd.IntN(end)
		}
		n := 1
		switch rnd.IntN(4) {
		case 0: // a byte
			raw[at] ^= byte(1 + rnd.IntN(255))
		case 1: // a bit of a record's front, where its length, type and CRC are
			raw[at/8*8+rnd.IntN(8)] ^= 1 << rnd.IntN(8)
		case 2: // a sector or two never written
			n = 512 * (1 + rnd.IntN(2))
			clear(raw[at:min(len(raw), at+n)])
		case 3: // one record's length lost
			clear(raw[at/8*8 : at/8*8+8])
		}
		try(fmt.Sprintf("%d bytes at %d of segment %d", n, at, i), i, raw)
	}
	for _, o := range []Outcome{Starts, Repairs, Drops, Refuses} {
		if outcomes[o] == 0 && (o != Drops || changes > 1000) {
			t.Errorf("no %s among %v", o, outcomes)
		}
	}
	t.Log(outcomes)
}

// Damage is told with what it destroys, and reading goes on behind it.
func TestBreaks(t *testing.T) {
	t.Parallel()
	w := write(t, filepath.Join(t.TempDir(), "wal"), 260, 900, 6)
	var all []Record
	if err := Records(t.Context(), w.dir, func(r Record) error { r.Data, r.Entry.Data = nil, nil; all = append(all, r); return nil }); err != nil {
		t.Fatal(err)
	}
	k := slices.IndexFunc(all, func(r Record) bool { return r.Type == EntryType && r.Size > 300 && r.Entry.Index > 20 })
	hurt, next := all[k], all[k+1]
	for _, tc := range []struct {
		name string
		at   int64 // of the record
		xor  byte
		want Class
	}{
		{"the data", 200, 1, BadCRC},
		{"the stored CRC", 8 + 3, 1, BadCRC},
		{"the record's front", 8, 0x80, Broken},
		{"the length", 1, 0x01, Broken},
		{"the length, beyond the file", 4, 1, Torn},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "wal")
			if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
				t.Fatal(err)
			}
			poke(t, dir, hurt.File, hurt.Offset+tc.at, tc.xor)
			v, err := Verify(t.Context(), dir, VerifyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(v.Damages) != 1 || v.Records != int64(len(all)-1) {
				t.Fatalf("%d records of %d, %+v", v.Records, len(all), v.Damages)
			}
			b := v.Damages[0]
			if b.Class != tc.want || b.Position != hurt.Position || b.Record != int64(k+1) || b.Resumed == nil || *b.Resumed != next.Position {
				t.Errorf("%+v, want %s at %s, and on at %s", b, tc.want, hurt.Position, next.Position)
			}
			if b.Behind != int64(len(all)-k-1) || b.Lost == nil || b.Lost.From != hurt.Entry.Index || b.Lost.To != w.last.Index {
				t.Errorf("%d records behind, lost %+v; want %d, from %d to %d", b.Behind, b.Lost, len(all)-k-1, hurt.Entry.Index, w.last.Index)
			}
			if tc.want == BadCRC && (b.Entry == nil || b.Entry.Index != hurt.Entry.Index || b.StoredCRC == nil) {
				t.Errorf("%+v", b)
			}
		})
	}
}

// Of many damages the first ones are told, and all are counted.
func TestManyBreaks(t *testing.T) {
	t.Parallel()
	w := write(t, filepath.Join(t.TempDir(), "wal"), 300, 900, 7)
	n := 0
	var at []Position
	if err := Records(t.Context(), w.dir, func(r Record) error {
		if r.Type == EntryType && r.Size > 200 {
			if n++; n%2 == 0 {
				at = append(at, r.Position)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, p := range at {
		poke(t, w.dir, p.File, p.Offset+150, 1)
	}
	v, err := Verify(t.Context(), w.dir, VerifyOptions{})
	if err != nil || v.Damaged != int64(len(at)) || len(v.Damages) != maxDamages || len(at) < maxDamages {
		t.Fatalf("%d damages of %d, %d told, %v", v.Damaged, len(at), len(v.Damages), err)
	}
	for i, b := range v.Damages {
		if b.Position != at[i] {
			t.Fatalf("%d: %s, want %s", i, b.Position, at[i])
		}
	}
}

// However many records of an unknown type come first: what ends a start is seen.
func TestVerdictBehindManyBreaks(t *testing.T) {
	t.Parallel()
	w := write(t, filepath.Join(t.TempDir(), "wal"), 300, 900, 8)
	var entries []Record
	if err := Records(t.Context(), w.dir, func(r Record) error {
		if r.Type == EntryType {
			r.Data, r.Entry.Data = nil, nil
			entries = append(entries, r)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, r := range entries[:maxDamages+20] {
		poke(t, w.dir, r.File, r.Offset+9, byte(EntryType)^9)
	}
	if v, said := judged(t, w.dir); said != "" || v.Damaged != maxDamages+20 {
		t.Errorf("%d damages; %s", v.Damaged, said)
	}
	last := entries[len(entries)-1]
	poke(t, w.dir, last.File, last.Offset+8, 0xff)
	v, said := judged(t, w.dir)
	if said != "" || v.Verdict.damage == nil || v.Verdict.damage.Position != last.Position {
		t.Errorf("%+v; %s", v.Verdict, said)
	}
}

// With an older segment torn, it depends on the last one how far a start comes.
func TestVerdictsOfTwoBreaks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at   int64 // of the record in the last segment
		xor  byte
		want string
	}{
		"a length": {4, 1, "cannot be repaired"},
		"a CRC":    {200, 1, "failed to repair WAL"},
		"a record": {8, 0xff, "failed to repair WAL"},
	} {
		t.Run(name, func(t *testing.T) {
			w := write(t, filepath.Join(t.TempDir(), "wal"), 260, 900, 6)
			var all []Record
			if err := Records(t.Context(), w.dir, func(r Record) error { r.Data, r.Entry.Data = nil, nil; all = append(all, r); return nil }); err != nil {
				t.Fatal(err)
			}
			last := all[len(all)-1].File
			large := func(r Record) bool { return r.Type == EntryType && r.Size > 300 }
			older := all[slices.IndexFunc(all, large)]
			newer := all[slices.IndexFunc(all, func(r Record) bool { return large(r) && r.File == last })]
			poke(t, w.dir, older.File, older.Offset+4, 1)
			poke(t, w.dir, newer.File, newer.Offset+tc.at, tc.xor)
			if v, said := judged(t, w.dir); said != "" || !strings.Contains(v.Verdict.Message, tc.want) {
				t.Errorf("%+v: %s", v.Verdict, said)
			}
		})
	}
}

// A log of which only the beginning is left: its first record alone, or no entry
// behind the snapshot record.
func TestVerdictsOfShortLogs(t *testing.T) {
	t.Parallel()
	w := write(t, filepath.Join(t.TempDir(), "wal"), 29, 0, 2) // the last record is that of a snapshot
	segment := load(t, w.dir)[0]
	info, err := Inspect(t.Context(), w.dir)
	if err != nil || info.Newest.Index != info.State.Commit || len(info.Segments) != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	var whose int64 // behind the record that says whose log it is: without it, it is none
	if err := Records(t.Context(), w.dir, func(r Record) error {
		if r.Type == MetadataType {
			whose = r.Offset + r.Size
		}
		return nil
	}); err != nil || whose == 0 {
		t.Fatal(whose, err)
	}
	outcomes := map[Outcome]int{}
	for at := int64(0); at <= info.End.Offset; at += 4 + at/200*16 {
		dir := filepath.Join(t.TempDir(), "wal")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, info.End.File), segment[:at], 0o600)); err != nil {
			t.Fatal(err)
		}
		_, serr := GatherStats(t.Context(), dir, DefaultStatsOptions())
		_, derr := Dump(t.Context(), dir, DefaultDumpOptions(), func(*Line) error { return nil })
		l, lerr := List(t.Context(), dir)
		for who, err := range map[string]error{"stats": serr, "dump": derr, "list": errors.Join(lerr, l.Err())} {
			if (err != nil) != (at < whose) || err != nil && fault.CauseOf(err) != string(Nobody) {
				t.Errorf("cut at %d of %d: %s: %v", at, whose, who, err)
			}
		}
		v, said := judged(t, dir)
		if said != "" {
			t.Fatalf("cut at %d: %s", at, said)
		}
		outcomes[v.Verdict.Outcome]++
	}
	t.Log(outcomes)
}

// Bytes that are made to look like long records, one every 16 bytes, are given up
// before long, and the next segment is read all the same.
func TestBreaksWithoutEnd(t *testing.T) {
	t.Parallel()
	w := write(t, filepath.Join(t.TempDir(), "wal"), 260, 900, 6)
	segments, err := Segments(w.dir)
	if err != nil || len(segments) < 3 {
		t.Fatal(segments, err)
	}
	raw := load(t, w.dir)[1][:1024]
	fake := append(binary.LittleEndian.AppendUint64(nil, 8<<20), 8, 2, 16, 1, 26, 1, 0, 0)
	raw = append(raw, bytes.Repeat(fake, 24<<20/len(fake))...)
	if err := os.WriteFile(filepath.Join(w.dir, segments[1].Name), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it would be hours
	defer cancel()
	v, err := Verify(ctx, w.dir, VerifyOptions{})
	if err != nil || v.Damaged == 0 || v.Damages[0].Lost == nil || v.Damages[0].Lost.To != w.last.Index {
		t.Errorf("%+v, %v", v, err)
	}
}
