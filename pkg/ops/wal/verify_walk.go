package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"kvd/pkg/ops/fault"
)

// tour is what a survey of a whole log calls, in order. A record is valid
// until the call returns.
type tour struct {
	begin  func(Segment)
	record func(*Record)
	// damaged gets where the log could not be read on. rec is the damaged record, as
	// far as it could be decoded. Records may follow.
	damaged func(d *Damage, rec *Record)
	end     func(used int64) // behind the last record of the segment
}

// survey goes through all segments of the log in dir (a WAL folder), and on behind
// damage, where records begin again. live says that a server is writing to it:
// then what looks damaged in the last segment is read anew before it is believed.
// It returns what reading itself failed with.
func survey(ctx context.Context, dir string, live bool, t tour) error {
	listed, err := Segments(dir)
	if err != nil {
		return err
	}
	files, segments, errs := openEach(dir, listed)
	defer closeAll(files)
	if len(files) == 0 {
		return unreadable(dir, fmt.Errorf("its segments are gone since it was listed: %w", fs.ErrNotExist))
	}
	w := walker{live: live, tour: t}
	defer w.r.close()
	for i, seg := range segments {
		w.path, w.unopened = filepath.Join(dir, seg.Name), errs[i]
		if err := w.open(files[i], seg, i == len(segments)-1); err != nil {
			return err
		}
		w.trials = trialsPerByte*w.r.seg.Bytes + trialsBeside
		t.begin(w.r.seg)
		if err := w.segment(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open goes on with a segment; one that cannot be opened has nothing to be read.
func (w *walker) open(f *os.File, seg Segment, last bool) error {
	w.f = f
	if f != nil {
		info, err := f.Stat()
		if err != nil {
			return unreadable(f.Name(), err)
		}
		seg.Bytes = info.Size() // the tail is cut when the next segment begins
	}
	w.r.open(seg, f, seg.Bytes, last)
	return nil
}

// trialsPerByte and trialsBeside say how much is read, in a segment of so many bytes,
// to find out where records begin again.
const (
	trialsPerByte = 8
	trialsBeside  = 16 << 20
)

// walker reads a log that may be damaged.
type walker struct {
	r    reader
	f    *os.File
	live bool
	tour tour

	path     string
	unopened error // why the segment in hand cannot be opened

	alt    *CRC   // behind a damaged record: the CRC if its own was damaged, and not its data
	trial  []byte // memory for records that are tried
	trials int64  // bytes of them that may yet be read in this segment
	adopt  bool   // nothing is known of the CRC so far: the next record's is taken
}

// next is reader.next with what is known behind damage.
func (w *walker) next(rec *Record) error {
	if err := w.r.frame(rec); err != nil {
		return err
	}
	if rec.Type == CRCType && w.adopt {
		w.r.crc = 0
	}
	stored := w.r.crc
	switch {
	case w.adopt && rec.Type != CRCType:
		w.r.crc = rec.CRC
	default:
		err := w.r.chain(rec)
		if err != nil && w.alt != nil {
			w.r.crc = *w.alt
			if w.r.chain(rec) == nil {
				err = nil
			} else {
				w.r.crc = stored
			}
		}
		if err != nil {
			return err
		}
	}
	w.adopt, w.alt = false, nil
	return w.r.accept(rec)
}

// segment reads one segment to its end.
func (w *walker) segment(ctx context.Context) error {
	var rec Record
	used := int64(0)
	for n := 0; ; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := w.read(&rec)
		var d *Damage
		switch {
		case err == nil && rec.Size == 0: // the end
			w.tour.end(used)
			return nil
		case err == nil:
			w.tour.record(&rec)
			used = w.r.off
			continue
		case !errors.As(err, &d):
			return err
		}
		if w.live && w.r.last && d.Class != NotRead {
			settled, err := w.settle(ctx, d, &rec)
			if err != nil {
				return err
			}
			if settled {
				continue
			}
		}
		if rec.Type == 0 && d.Class != NotRead {
			w.peek(&rec)
		}
		w.tour.damaged(d, &rec)
		if d.inFlight || d.Class == NotRead || !w.resume(ctx, d, &rec) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			w.adopt, w.alt = true, nil // the next segment begins anew
			w.tour.end(used)
			return nil
		}
	}
}

// read reads a record, or finds that there is none behind the last. What the system does
// not give is damage, since a start ends on it too; but not what this user may not read.
func (w *walker) read(rec *Record) error {
	err := w.unopened
	if err == nil {
		err = w.next(rec)
	}
	if errors.Is(err, io.EOF) {
		err = w.behindEnd(rec)
	}
	if err == nil || fault.KindOf(err) != fault.Unavailable {
		return err
	}
	*rec = Record{Position: w.r.here()}
	d := w.r.damage(NotRead, "%s", fault.Why(err))
	if no := syscall.Errno(0); errors.As(err, &no) {
		d.system = no.Error()
		d.Why = "the system does not give it: " + d.system
		if target := lostLink(w.path); target != "" {
			d.Why = "it is a link to " + target + ", which is not there"
		}
	}
	return d
}

// behindEnd looks for data behind the end of a segment, where there is none in a
// sound log, unless a server has written on since: then there is a length now
// where there was none.
func (w *walker) behindEnd(rec *Record) error {
	*rec = Record{Position: w.r.here()}
	at := firstData(w.f, w.r.off, w.r.limit)
	if at < w.r.off+lengthBytes || hasLength(w.f, w.r.off) {
		return nil
	}
	return w.r.damage(Hidden, "a length of 0, where by its format the log ends, but at offset %d there is data again", at)
}

// liveTries and livePause say how often, and after how long, a record is read
// anew that a server may just be writing.
const (
	liveTries = 5
	livePause = 10 * time.Millisecond
)

// settle reads a damaged record of a running server anew, until it is sound or has
// been tried often enough. A server writes front to back, so that one with records
// behind it was written, and is damaged; else one that is not whole is in flight. (A
// length of 0 with data behind it is none: the length would have come first.)
func (w *walker) settle(ctx context.Context, d *Damage, rec *Record) (sound bool, err error) {
	pause := time.NewTimer(livePause)
	defer pause.Stop()
	for range liveTries {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-pause.C:
		}
		pause.Reset(livePause)
		if w.again(d, rec) {
			return true, nil
		}
	}
	behind := w.realign(ctx, d.Offset+lengthBytes) >= 0
	if w.again(d, rec) {
		return true, nil // finished since, and what is behind it was written after it
	}
	d.inFlight = d.Repaired() && !behind
	return false, nil
}

// again reads a damaged record once more. Whether or not it is sound, it is read
// another time by whoever goes on from here.
func (w *walker) again(d *Damage, rec *Record) (sound bool) {
	if info, err := w.f.Stat(); err == nil {
		w.r.limit = info.Size() // cut, if the next segment began
	}
	w.r.seek(w.f, d.Offset)
	crc, meta, alt, adopt := w.r.crc, w.r.meta, w.alt, w.adopt
	err := w.next(rec)
	if errors.Is(err, io.EOF) {
		err = w.behindEnd(rec)
	}
	w.r.crc, w.r.meta, w.alt, w.adopt = crc, meta, alt, adopt
	w.r.seek(w.f, d.Offset)
	return err == nil
}

// peek decodes what can be read at the front of a record that is not whole: what
// it holds, and of an entry, index and term.
func (w *walker) peek(rec *Record) {
	const fields = 64 // more than all that stands in front of an entry's data takes
	var head [fields]byte
	n, _ := w.f.ReadAt(head[:min(fields, max(0, w.r.limit-rec.Offset-lengthBytes))], rec.Offset+lengthBytes)
	rec.front(head[:n])
}
