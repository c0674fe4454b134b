package wal

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// Whatever is taken, copied and gone back to, in whatever order, is what the file has.
func TestAheadIsTheFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	file := make([]byte, 11*pieceBytes+77)
	for i := range file {
		file[i] = byte(rng.Uint32())
	}
	var a ahead
	defer a.stop()
	for range 200 {
		at := rng.IntN(len(file) + 1)
		a.reset(bytes.NewReader(file), int64(at))
		for range rng.IntN(60) {
			var got []byte
			var err error
			n := rng.IntN(1 + pieceBytes>>rng.IntN(16))
			if rng.IntN(8) == 0 {
				got = make([]byte, 3*n)
				n, err = io.ReadFull(&a, got)
				got = got[:n]
			} else {
				got, err = a.take(n)
			}
			if !bytes.Equal(got, file[at:at+len(got)]) {
				t.Fatalf("%d bytes at %d are not those of the file", len(got), at)
			}
			if at += len(got); err == nil && len(got) != n || err != nil && at != len(file) {
				t.Fatalf("%d of %d bytes up to %d of %d: %v", len(got), n, at, len(file), err)
			}
			if err != nil {
				break
			}
		}
	}
}

// A disk that fails is told where it fails, after what could be read, and stays told.
func TestAheadTellsErrors(t *testing.T) {
	bad := errors.New("input/output error")
	file := make([]byte, 5*pieceBytes)
	for _, good := range []int64{0, 10, pieceBytes, 3*pieceBytes + 5} {
		a := ahead{}
		a.reset(failing{bytes.NewReader(file), good, bad}, 0)
		got, err := io.ReadAll(iotest.OneByteReader(&a))
		if int64(len(got)) != good || !errors.Is(err, bad) {
			t.Errorf("%d bytes of %d, then %v", len(got), good, err)
		}
		if rest, err := a.take(1); len(rest) != 0 || !errors.Is(err, bad) {
			t.Errorf("then %d bytes, %v", len(rest), err)
		}
		a.stop()
	}
}

// failing can be read up to an offset.
type failing struct {
	io.ReaderAt
	good int64
	err  error
}

func (f failing) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) <= f.good {
		return f.ReaderAt.ReadAt(b, at)
	}
	n, _ := f.ReaderAt.ReadAt(b[:max(0, f.good-at)], at)
	return n, f.err
}
