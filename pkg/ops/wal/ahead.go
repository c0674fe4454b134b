package wal

import (
	"errors"
	"io"
)

const (
	pieceBytes = 256 << 10 // what is read at once
	pieces     = 3         // one in hand, the others being filled
)

// ahead reads a file from a place on, in pieces that are read while the one before
// is looked at: a log is as long to copy out of the page cache as it is to check. It
// begins with that only when a second piece is wanted, so that whoever looks at a
// few records reads a few. The zero value has nothing to read; see reset. Whoever
// read with it has to stop it.
type ahead struct {
	// alone has each piece read when it is wanted, into the memory of the one before:
	// where all processors have something to read, handing pieces over only costs.
	alone bool

	in   io.ReaderAt
	at   int64  // where the piece begins that is read next
	rest []byte // what was not taken of the piece in hand
	err  error  // why no piece follows

	hand *piece
	sums []sum // of the records that end in hand, as far as nobody asked for a later one
	free []*piece
	want chan *piece // to be filled; nil: nobody reads ahead
	got  chan *piece
}

// piece is a part of a file. In front of it is room for what was left of the one
// before, so that a record that begins there and ends here is in one place.
type piece struct {
	b   [pieceBytes + pieceBytes]byte
	n   int // bytes in the second half
	err error

	sums []sum
}

func (p *piece) fill(in io.ReaderAt, at int64) {
	p.n, p.err = in.ReadAt(p.b[pieceBytes:], at)
	p.sums = p.sums[:0]
}

// reset goes on at another place, or in another file.
func (a *ahead) reset(in io.ReaderAt, at int64) {
	a.stop()
	if a.hand != nil {
		a.free, a.hand = append(a.free, a.hand), nil
	}
	a.in, a.at, a.rest, a.err, a.sums = in, at, nil, nil, nil
}

var errStopped = errors.New("the reading was stopped")

// take returns the next n bytes, of which there can be as many as pieceBytes; they are
// valid until the next call. With an error, it returns those that there are, and
// they are not taken.
func (a *ahead) take(n int) ([]byte, error) {
	for len(a.rest) < n {
		if err := a.next(); err != nil {
			return a.rest, err
		}
	}
	b := a.rest[:n]
	a.rest = a.rest[n:]
	return b, nil
}

// Read copies what is there of the piece in hand, or of the next.
func (a *ahead) Read(b []byte) (int, error) {
	for len(a.rest) == 0 {
		if err := a.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// next takes a piece in hand, behind what is left of the one before.
func (a *ahead) next() error {
	if a.err != nil {
		return a.err
	}
	var p *piece
	switch {
	case a.hand == nil:
		p = a.spare()
		p.fill(a.in, a.at)
		a.at += int64(p.n)
	case a.alone:
		a.refill()
		return nil
	default:
		if a.want == nil {
			a.start()
		}
		p = <-a.got
	}
	from := pieceBytes - len(a.rest)
	copy(p.b[from:pieceBytes], a.rest)
	if a.hand != nil {
		a.want <- a.hand
	}
	a.hand, a.rest, a.err, a.sums = p, p.b[from:pieceBytes+p.n], p.err, p.sums
	return nil
}

// refill reads the next piece where the one in hand is.
func (a *ahead) refill() {
	p := a.hand
	from := pieceBytes - len(a.rest)
	copy(p.b[from:pieceBytes], a.rest)
	p.fill(a.in, a.at)
	a.at += int64(p.n)
	a.rest, a.err = p.b[from:pieceBytes+p.n], p.err
}

// sum returns the CRC of a log with the record at an offset, if it was computed ahead
// from what it was before. The record was taken to its end.
func (a *ahead) sum(at int64, before CRC) (CRC, bool) {
	for len(a.sums) > 0 && a.sums[0].at < at {
		a.sums = a.sums[1:]
	}
	if len(a.sums) == 0 || a.sums[0].at != at || a.sums[0].before != before {
		return 0, false
	}
	return a.sums[0].after, true
}

// start begins to read ahead, behind the first piece.
func (a *ahead) start() {
	want, got := make(chan *piece, pieces), make(chan *piece, pieces) // as many as there are, so that nobody waits to give one back
	in, at, first := a.in, a.at, a.hand
	go func() {
		defer close(got)
		crc := summing{lost: at != int64(first.n)} // the file was not read from its beginning
		crc.over(first.b[pieceBytes:pieceBytes+first.n], nil)
		for p := range want {
			p.fill(in, at)
			at += int64(p.n)
			p.sums = crc.over(p.b[pieceBytes:pieceBytes+p.n], p.sums)
			if got <- p; p.err != nil {
				return
			}
		}
	}()
	for range pieces - 1 {
		want <- a.spare()
	}
	a.want, a.got = want, got
}

// stop ends the reading ahead. What was taken last stays valid until the next reset.
func (a *ahead) stop() {
	if a.want == nil {
		return
	}
	close(a.want)
	for p := range a.got {
		a.free = append(a.free, p)
	}
	for p := range a.want { // given back after the end of the file was read
		a.free = append(a.free, p)
	}
	a.want, a.got, a.err = nil, nil, errStopped
}

// spare returns a piece to be filled.
func (a *ahead) spare() *piece {
	if n := len(a.free); n > 0 {
		p := a.free[n-1]
		a.free = a.free[:n-1]
		return p
	}
	return new(piece)
}
