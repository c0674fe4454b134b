package wal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// settleCut looks whether what an error calls a record that was cut short has records
// behind it. A server writes front to back, so that such a one was written whole, and its
// length is damaged. What it returns is then the error to be told. Of a log that is being
// written to, what was read may have been finished meanwhile: then it has to be read again.
func settleCut(ctx context.Context, dir string, err error) error {
	var d *Damage
	if !errors.As(err, &d) || !d.cutShort() {
		return err
	}
	f, ferr := os.Open(filepath.Join(dir, d.File))
	if ferr != nil {
		return err
	}
	defer f.Close()
	info, ferr := f.Stat()
	if ferr != nil {
		return err
	}
	w := walker{f: f, trials: trialsPerByte*info.Size() + trialsBeside}
	w.r.limit = info.Size()
	at := w.realign(ctx, d.Offset+lengthBytes)
	if at < 0 {
		return err
	}
	d.continues(Position{d.File, at})
	return d.fault()
}

// named is the damage of a log in which no record says whose it is: it has none at all, or
// not even the first two. err is what its reading ended with.
func named(segments []Segment, meta []byte, err error) error {
	var d *Damage
	if meta != nil || len(segments) == 0 || err != nil && (!errors.As(err, &d) || !d.Repaired()) {
		return err
	}
	first := segments[0]
	n := &Damage{Class: Nobody, Position: Position{File: first.Name}, Last: len(segments) == 1, Why: "no record says whose log it is: it is empty, or no log"}
	if d != nil {
		n.Why += "; " + d.Why
	}
	return n.fault()
}
