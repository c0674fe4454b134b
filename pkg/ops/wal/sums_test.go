package wal

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
)

// wide writes a log whose segments are read in several pieces.
func wide(t *testing.T, largest int) [][]byte {
	t.Helper()
	etcdwal.SegmentSizeBytes = 5 * pieceBytes
	defer func() { etcdwal.SegmentSizeBytes = segmentBytes }()
	dir := t.TempDir() + "/wal"
	write(t, dir, 12*pieceBytes/largest, largest, uint64(largest))
	return load(t, dir)
}

// In whatever parts a segment is looked at, there is a sum of each record, and it is
// what etcd's decoder says.
func TestSumsAreTheLogs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, largest := range []int{300, 9000, 2 * pieceBytes} {
		segments := wide(t, largest)
		if len(segments) < 2 {
			t.Fatalf("%d segments", len(segments))
		}
		want, _ := byEtcd(segments...)
		for _, segment := range segments {
			var s summing
			var sums []sum
			for rest := segment; len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(1<<rng.IntN(20)))
				sums = s.over(rest[:n], sums)
				rest = rest[n:]
			}
			for i, sum := range sums {
				if CRC(want[i].crc) != sum.after || i > 0 && (sum.at != want[i-1].offset || sum.before != sums[i-1].after) {
					t.Fatalf("sum %d of %d: %+v, etcd has %08x behind %d", i, len(sums), sum, want[i].crc, want[max(0, i-1)].offset)
				}
			}
			want = want[len(sums):]
		}
		if len(want) > 0 {
			t.Errorf("values up to %d: no sums of %d records", largest, len(want))
		}
	}
}

// With sums at hand, the reader still says what etcd's decoder says of a log that is
// damaged or cut anywhere.
func TestSumsHideNoDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, largest := range []int{9000, pieceBytes} {
		sound := wide(t, largest)
		if why := disagree(sound...); why != "" {
			t.Fatalf("values up to %d: %s", largest, why)
		}
		for range 40 {
			segments := slices.Clone(sound)
			k := rng.IntN(len(segments))
			at := rng.IntN(len(bytes.TrimRight(segments[k], "\x00")))
			segments[k] = bytes.Clone(segments[k])
			how := "flipped"
			if rng.IntN(4) == 0 {
				how, segments[k] = "cut", segments[k][:at]
			} else {
				segments[k][at] ^= 1 << rng.UintN(8)
			}
			if why := disagree(segments...); why != "" {
				t.Errorf("values up to %d, segment %d %s at %d: %s", largest, k, how, at, why)
			}
		}
	}
}
