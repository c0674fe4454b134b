package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"kvd/pkg/ops/snapshot"
)

// Each kind of wild pointer (and a few more), with the right hash and without one.
func TestDamageIsNamed(t *testing.T) {
	good := realRegistry(t)
	root := lowestBranch(t, good)
	le := binary.LittleEndian
	first := int(le.Uint64(child(page(good, root), 0)))
	second := int(le.Uint64(child(page(good, root), 1)))
	leaf := first
	for name, tc := range map[string]struct {
		change  func(b []byte)
		class   string // of the first damage
		verdict snapshot.Class
		lost    bool
	}{
		"pointer far away":   {func(b []byte) { le.PutUint64(child(page(b, root), 1), 1e15) }, "wild_pointer", snapshot.ClassBadPages, true},
		"pointer just out":   {func(b []byte) { le.PutUint64(child(page(b, root), 1), 548) }, "wild_pointer", snapshot.ClassBadPages, true},
		"pointer to meta":    {func(b []byte) { le.PutUint64(child(page(b, root), 1), 1) }, "wild_pointer", snapshot.ClassBadPages, true},
		"shared page":        {func(b []byte) { le.PutUint64(child(page(b, root), 1), uint64(first)) }, "page_shared", snapshot.ClassBadPages, true},
		"cycle":              {func(b []byte) { le.PutUint64(child(page(b, root), 1), uint64(root)) }, "page_shared", snapshot.ClassBadPages, true},
		"too many elements":  {func(b []byte) { le.PutUint16(page(b, leaf)[10:], 65535) }, "bad_element", snapshot.ClassBadPages, true},
		"one element more":   {func(b []byte) { page(b, leaf)[10]++ }, "bad_element", snapshot.ClassBadPages, true},
		"no children":        {func(b []byte) { le.PutUint16(page(b, root)[10:], 0) }, "bad_element", snapshot.ClassBadPages, true},
		"branch with flag 0": {func(b []byte) { page(b, root)[8] = 0 }, "wrong_page_type", snapshot.ClassBadPages, true},
		"another id":         {func(b []byte) { page(b, leaf)[0]++ }, "wrong_page_id", snapshot.ClassBadPages, true},
		"long overflow":      {func(b []byte) { page(b, leaf)[14] = 1 }, "wrong_page_length", snapshot.ClassBadPages, true},
		"overflow by one":    {func(b []byte) { page(b, leaf)[12] += 3 }, "wrong_page_length", snapshot.ClassBadPages, true},
		"key beyond page":    {func(b []byte) { le.PutUint32(page(b, leaf)[16+8:], 1<<31) }, "bad_element", snapshot.ClassBadPages, true},
		"empty key":          {func(b []byte) { le.PutUint32(page(b, leaf)[16+8:], 0) }, "bad_element", snapshot.ClassBadPages, true},
		"zeroed page":        {func(b []byte) { clear(page(b, second)) }, "zero_page", snapshot.ClassBadPages, true},
		"keys out of order":  {func(b []byte) { page(b, root)[16+int(le.Uint32(page(b, root)[16+16:]))+16]++ }, "key_order", snapshot.ClassBadPages, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(good)
			tc.change(b)
			if bytes.Equal(b, good) {
				t.Fatal("nothing was changed")
			}
			v := verify(t, "s.db", rehash(b))
			if v.Verdict != snapshot.NotRestorable || v.Class != tc.verdict || len(v.Findings) == 0 || v.Findings[0].Class != tc.class {
				t.Fatalf("%s, %s: %s; %+v", v.Verdict, v.Class, v.Summary, v.Findings)
			}
			f := v.Findings[0]
			if f.Page == nil || f.Bucket != "key" || tc.lost && f.LostFrom == "" && f.LostBefore == "" && *f.Page != uint64(root) {
				t.Errorf("finding %+v", f)
			}
			if v.Content.Revisions >= 1188 && !strings.Contains(name, "order") {
				t.Errorf("%d records in spite of it", v.Content.Revisions)
			}
			if !strings.Contains(v.Summary, "the member that it was saved from") {
				t.Errorf("the hash matches, and the summary is %q", v.Summary)
			}
			raw := verify(t, "raw.db", b[:len(b)-32])
			if raw.Verdict != snapshot.NotRestorable || raw.Class != snapshot.ClassBadPages && raw.Class != snapshot.ClassTornCopy {
				t.Errorf("without a hash: %s, %s", raw.Verdict, raw.Class)
			}
		})
	}
}

// A record that does not decode ends a server; one that contradicts itself does not.
func TestRecordsAreDecoded(t *testing.T) {
	good := realRegistry(t)
	le := binary.LittleEndian
	leaf := int(le.Uint64(child(page(good, lowestBranch(t, good)), 0)))
	value := func(b []byte) []byte {
		p := page(b, leaf)
		at := 16 + int(le.Uint32(p[16+4:])) + int(le.Uint32(p[16+8:]))
		return p[at : at+int(le.Uint32(p[16+12:]))]
	}
	for name, tc := range map[string]struct {
		change  func(v []byte)
		verdict snapshot.Verdict
		text    string
	}{
		"no protobuf":    {func(v []byte) { v[0] = 7 }, snapshot.NotRestorable, "1 record does not decode"},
		"length too big": {func(v []byte) { v[1] = 0xff }, snapshot.NotRestorable, "1 record does not decode"},
		"mod revision": {func(v []byte) {
			i := 2 + int(v[1]) // behind the key: create revision, mod revision
			if v[i] != 0x10 || v[i+2] != 0x18 {
				panic("the fixture has another first record")
			}
			v[i+3]++
		}, snapshot.WithLoss, "1 record contradicts itself"},
		"version 0": {func(v []byte) {
			i := 2 + int(v[1]) + 4
			if v[i] != 0x20 {
				panic("the fixture has another first record")
			}
			v[i+1] = 0
		}, snapshot.WithLoss, "1 record contradicts itself"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(good)
			tc.change(value(b))
			v := verify(t, "s.db", rehash(b))
			if v.Verdict != tc.verdict || v.Class != snapshot.ClassBadRecords || !strings.Contains(v.Summary, tc.text) {
				t.Errorf("%s, %s: %s", v.Verdict, v.Class, v.Summary)
			}
		})
	}
}

// Without a hash the structure is all there is; with one nothing gets through.
func TestCutsAndFlips(t *testing.T) {
	good := realRegistry(t)
	if v := verify(t, "good.db", good); v.Verdict != snapshot.Restorable {
		t.Fatalf("%+v", v)
	}
	cuts, flips := 25, 25
	if testing.Short() {
		cuts, flips = 5, 5
	}
	checkCuts(t, good, cuts, 60)
	checkFlips(t, good, flips)
}

// checkCuts cuts at every step'th page edge and at n seeded random bytes.
func checkCuts(t *testing.T, good []byte, n, step int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(21, 42)) //nolint:gosec // seeded on purpose
	var at []int
	for i := 0; i < len(good); i += step * pageSize {
		at = append(at, i)
	}
	for range n {
		at = append(at, rng.IntN(len(good)))
	}
	at = append(at, len(good)-1, len(good)-32, len(good)-33)
	for _, size := range at {
		v := verify(t, "cut.db", good[:size])
		missing := len(good) - 32 - size
		switch {
		case v.Verdict == snapshot.Restorable:
			t.Errorf("cut at %d: %s (%s)", size, v.Verdict, v.Class)
		case missing == 0 && v.Verdict != snapshot.Unproven:
			t.Errorf("without its hash: %s (%s)", v.Verdict, v.Class)
		case missing > 0 && size > 2*pageSize && (v.Class != snapshot.ClassTruncated || v.MissingBytes != int64(missing)):
			t.Errorf("cut at %d: %s, %d bytes missing, want %d", size, v.Class, v.MissingBytes, missing)
		}
	}
}

// checkFlips flips one bit at n seeded random places of the hashed part.
func checkFlips(t *testing.T, good []byte, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(84, 168)) //nolint:gosec // seeded on purpose
	for range n {
		i, bit := rng.IntN(len(good)), byte(1)<<rng.IntN(8)
		b := bytes.Clone(good)
		b[i] ^= bit
		if v := verify(t, "flip.db", b); v.Verdict == snapshot.Restorable || v.Verdict == snapshot.Unproven {
			t.Errorf("bit %#x of byte %d: %s (%s)", bit, i, v.Verdict, v.Class)
		}
	}
}

// Versions that this etcd follows, and those it does not.
func TestStorageVersion(t *testing.T) {
	for version, want := range map[string]snapshot.Verdict{
		"3.7.0": snapshot.Restorable, "3.6.0": snapshot.Restorable, "3.5.0": snapshot.Restorable,
		"3.8.0": snapshot.NotRestorable, "4.0.0": snapshot.NotRestorable, "2.3.0": snapshot.NotRestorable, "3.4.0": snapshot.NotRestorable,
	} {
		b := realRegistry(t)
		at := bytes.LastIndex(b, []byte("storageVersion3.7.0"))
		if at < 0 {
			t.Fatal("the fixture has no storage version")
		}
		copy(b[at+len("storageVersion"):], version)
		v := verify(t, "s.db", rehash(b))
		if v.Verdict != want || want == snapshot.NotRestorable && v.Class != snapshot.ClassVersion {
			t.Errorf("%s: %s (%s) %s", version, v.Verdict, v.Class, v.Summary)
		}
	}
}

// A meta page that points beyond the file, with its checksum right.
func TestMetaPages(t *testing.T) {
	good := realRegistry(t)
	for name, tc := range map[string]struct {
		change func(b []byte)
		want   snapshot.Class
	}{
		"high-water mark of 2^40": {func(b []byte) {
			for at := 16; at < 2*pageSize; at += pageSize {
				binary.LittleEndian.PutUint64(b[at+40:], 1<<40)
			}
			resum(b)
		}, snapshot.ClassTruncated},
		"both checksums wrong": {func(b []byte) { b[16+56]++; b[pageSize+16+56]++ }, snapshot.ClassBadPages},
		"one checksum wrong":   {func(b []byte) { b[16+56]++ }, snapshot.ClassHashMismatch},
		"root is a leaf of records": {func(b []byte) {
			leaf := child(page(b, lowestBranch(t, b)), 3)
			copy(b[16+16:], leaf)
			copy(b[pageSize+16+16:], leaf)
			resum(b)
		}, snapshot.ClassBadPages},
	} {
		b := bytes.Clone(good)
		tc.change(b)
		if v := verify(t, "s.db", b); v.Class != tc.want || v.Verdict == snapshot.Restorable {
			t.Errorf("%s: %s (%s) %s", name, v.Verdict, v.Class, v.Summary)
		}
	}
}

func TestManyDamagesAreCounted(t *testing.T) {
	b := realRegistry(t)
	root := page(b, keyRoot(t, b))
	n := int(binary.LittleEndian.Uint16(root[10:]))
	for i := range n {
		binary.LittleEndian.PutUint64(child(root, i), 1e9+uint64(i))
	}
	v := verify(t, "s.db", b)
	if v.DamagesFound != int64(n) || v.Content.Revisions != 0 || !strings.Contains(v.Summary, fmt.Sprintf("%d damaged pages", n)) {
		t.Errorf("%d damages of %d, %s", v.DamagesFound, n, v.Summary)
	}
}

// What ends inside its hash is no raw copy: that is compared as far as it goes.
func TestCutInsideTheHash(t *testing.T) {
	good := realRegistry(t)
	for _, missing := range []int{1, 16, 31} {
		cut := good[:len(good)-missing]
		v := verify(t, "cut.db", cut)
		if v.Verdict != snapshot.Unproven || v.Class != snapshot.ClassTruncated || v.MissingBytes != int64(missing) || !strings.Contains(v.Summary, fmt.Sprintf("%d of 32 bytes missing", missing)) {
			t.Errorf("%d: %+v", missing, v)
		}
		other := bytes.Clone(cut)
		other[len(good)-32] ^= 1
		if v := verify(t, "cut.db", other); v.Verdict != snapshot.WithLoss || v.Class != snapshot.ClassHashMismatch {
			t.Errorf("%d, and another hash: %+v", missing, v)
		}
	}
}
