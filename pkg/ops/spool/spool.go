// Package spool makes files that can be read at any place of those that cannot:
// of a compressed file, or of a stream. What it makes lies on a disk without a
// name, so that nothing is left of it when the process ends, however it ends.
package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// The compressions.
const (
	None = "none"
	Zstd = "zstd" // RFC 8878; with a checksum of the content where kvd writes it
)

// maxWindow is how far back a compressed file may refer, which is memory: what
// `zstd --long` makes, and not what a hostile file asks for.
const maxWindow = 128 << 20

// Options of Open.
type Options struct {
	Dir string // for the content; empty: the system's folder for temporary files
	Op  string // what it is for, in events and errors
}

// File is the content of a compressed file. It is safe for concurrent use, except
// for Close.
type File struct {
	Packed

	file *os.File
	size int64
}

// Packed is a compressed file as it is stored.
type Packed struct {
	Compression string `json:"compression"`
	SizeBytes   int64  `json:"size_bytes"`
	SHA256      string `json:"sha256"`
}

// Compression says by the first bytes of a file, not by its name, how it is
// compressed. What is no file has none.
func Compression(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return None, err
	}
	f, err := os.Open(path)
	if err != nil {
		return None, err
	}
	defer f.Close() //nolint:errcheck // only read
	return compressionOf(f)
}

// Open unpacks a compressed file. It takes as much room on the disk as the
// content has, and some 10 MiB of memory.
//
// Errors: fault.Damage with cause CauseTruncated or CauseDamaged where the file
// does not decompress, fault.Refused with cause CauseWindow where that would take too
// much memory, fault.Unavailable where there is no room for the content
// (cause "disk_full") or a disk fails.
func Open(ctx context.Context, path string, o Options, sink progress.Sink) (*File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, failed(o.Op, path, err)
	}
	defer in.Close() //nolint:errcheck // only read
	info, err := in.Stat()
	if err != nil {
		return nil, failed(o.Op, path, err)
	}
	out, err := Temp(o.Dir)
	if err != nil {
		return nil, failed(o.Op, o.dir(), err)
	}
	f := &File{Packed: Packed{Compression: Zstd, SizeBytes: info.Size()}, file: out}
	src := &source{ctx: ctx, r: in, size: info.Size(), report: func(n int64) {
		sink.Event(progress.Event{Op: o.Op, Subject: path, Phase: "decompressing", Done: n, Total: info.Size(), Unit: "bytes"})
	}}
	sum := sha256.New()
	f.size, err = Unpack(out, io.TeeReader(src, sum))
	switch {
	case err == nil:
		f.SHA256 = hex.EncodeToString(sum.Sum(nil))
		return f, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		err = o.explain(path, in, src, f.size, err)
	}
	return nil, errors.Join(err, out.Close())
}

// The causes of damage.
const (
	CauseTruncated = "zstd_truncated" // it ends before its end
	CauseExtra     = "zstd_extra"     // whole, with something behind it that is no zstd
	CauseDamaged   = "zstd_damaged"   // it does not decompress, or to something else than was compressed
)

// CauseWindow is of a file that may well be whole, and takes more memory to
// decompress than a file is given here.
const CauseWindow = "zstd_window"

func (o Options) dir() string {
	if o.Dir == "" {
		return os.TempDir()
	}
	return o.Dir
}

// explain tells what failed: the disks, or the content.
func (o Options) explain(path string, in io.ReaderAt, src *source, unpacked int64, err error) error {
	var perr *os.PathError
	switch {
	case src.err != nil:
		return failed(o.Op, path, src.err)
	case errors.As(err, &perr):
		return failed(o.Op, o.dir(), perr)
	}
	if n := window(in); errors.Is(err, zstd.ErrWindowSizeExceeded) && n > maxWindow {
		return &fault.Error{Kind: fault.Refused, Cause: CauseWindow, Op: o.Op, Subject: path,
			Msg:  fmt.Sprintf("it was compressed with a window of %d MiB, and no more than %d MiB are given to one here; nothing says that it is damaged", n>>20, maxWindow>>20),
			Hint: "decompress it first: zstd -d --long=31 FILE"}
	}
	e := &fault.Error{Kind: fault.Damage, Cause: CauseDamaged, Op: o.Op, Subject: path, Err: err,
		Msg:  fmt.Sprintf("a zstd stream that does not decompress: %d bytes came out before offset %d", unpacked, src.n),
		Hint: "use another copy"}
	end, whole := frames(in, src.size)
	switch {
	case whole && end < src.size && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, zstd.ErrMagicMismatch)):
		e.Cause, e.Err = CauseExtra, nil
		e.Msg = fmt.Sprintf("a whole zstd stream with %d more bytes behind it, which are none: it ends at offset %d, after %d bytes came out", src.size-end, end, unpacked)
		e.Hint = fmt.Sprintf("cut them off: head -c %d FILE > snapshot.db.zst", end)
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Cause, e.Err = CauseTruncated, nil
		e.Msg = fmt.Sprintf("a zstd stream that is cut off: it ends at offset %d, after %d bytes came out", src.n, unpacked)
		e.Hint = "fetch it again, and compare its size with the original's"
	}
	return e
}

// ReadAt reads the content.
func (f *File) ReadAt(b []byte, offset int64) (int, error) { return f.file.ReadAt(b, offset) }

// Size returns the length of the content in bytes.
func (f *File) Size() int64 { return f.size }

// Path returns a name under which this process can open the content until Close,
// for whoever wants a name.
func (f *File) Path() string { return fmt.Sprintf("/dev/fd/%d", f.file.Fd()) }

// Close gives the room back.
func (f *File) Close() error { return f.file.Close() }

// Temp makes a file without a name in a folder; empty is the system's folder for
// temporary files.
func Temp(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "kvd-spool-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Pack returns a writer that compresses into w. Its Close ends the stream and
// leaves w open.
func Pack(w io.Writer, compression string) (io.WriteCloser, error) {
	if compression == None {
		return open{w}, nil
	}
	return zstd.NewWriter(w, zstd.WithEncoderCRC(true))
}

// Unpack decompresses r into w and returns how many bytes came out. A stream that
// is cut off is io.ErrUnexpectedEOF.
func Unpack(w io.Writer, r io.Reader) (int64, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return 0, err
	}
	defer d.Close()
	return d.WriteTo(w)
}

// open is a writer whose Close does nothing.
type open struct{ io.Writer }

func (open) Close() error { return nil }

// source counts what is read, and ends with its context.
type source struct {
	ctx    context.Context
	r      io.Reader
	size   int64
	n      int64
	err    error
	report func(int64)
}

const reportEvery = 16 << 20

func (s *source) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(b)
	if s.n/reportEvery != (s.n+int64(n))/reportEvery {
		s.report(s.n + int64(n))
	}
	s.n += int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // Reader's contract
		s.err = err
	}
	return n, err
}
