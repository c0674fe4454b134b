package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"syscall"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/spool"
)

const (
	pieceSize   = 128 << 10 // of what is copied at once: it fits into a core's own cache
	reportEvery = 16 << 20  // bytes
)

// receive writes a stream to w, and hashes it on its way. It has the member send
// as fast as it can, since it keeps its freed pages for as long. The error tells
// where the hash that the member sent does not fit.
//
// Each piece (32 KiB) is written and hashed while it is in the core's cache; to
// gather larger ones, or to hand them to another thread, costs more than it saves.
func receive(stream *cluster.SnapshotStream, member string, w io.Writer, sink progress.Sink) (*hashing, error) {
	h := newHashing(stream.Size, stream.Size-sha256.Size)
	tail := make([]byte, 0, sha256.Size)
	for {
		b, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(b); err != nil {
			return nil, err
		}
		at := h.at
		h.add(b)
		tail = append(tail, b[max(0, min(int64(len(b)), h.data-at)):]...)
		if h.at/reportEvery != at/reportEvery || h.at == stream.Size {
			sink.Event(progress.Event{Op: opSave, Subject: member, Phase: "receiving", Done: h.at, Total: stream.Size, Unit: "bytes"})
		}
	}
	if sent := hex.EncodeToString(tail); sent != h.out.pages || h.at != stream.Size {
		return nil, &fault.Error{Kind: fault.Damage, Cause: string(ClassHashMismatch), Op: opSave, Subject: member,
			Msg:  fmt.Sprintf("what arrived is not what was sent: its SHA-256 is %s, the member sent %s", h.out.pages, sent),
			Hint: "run the command again; if it comes back, look at the network and the machine's memory"}
	}
	return h, nil
}

// stored counts and hashes what is written, as it is stored.
type stored struct {
	w   io.Writer
	n   int64
	sum hash.Hash
}

func newStored(w io.Writer) *stored { return &stored{w: w, sum: sha256.New()} }

func (s *stored) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.n += int64(n)
	s.sum.Write(b[:n]) //nolint:errcheck // a hash never fails
	return n, err
}

func (s *stored) sha256() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// pack copies the snapshot from where it was checked to where it goes.
func pack(ctx context.Context, raw io.ReaderAt, size int64, w io.Writer, compression string, sink progress.Sink) (*stored, error) {
	s := newStored(w)
	z, err := spool.Pack(s, compression)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, pieceSize)
	phase := "copying"
	if compression != spool.None {
		phase = "compressing"
	}
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := raw.ReadAt(buf[:min(pieceSize, size-at)], at)
		if n == 0 {
			return nil, err
		}
		if _, err := z.Write(buf[:n]); err != nil {
			return nil, err
		}
		if at += int64(n); at%reportEvery == 0 {
			sink.Event(progress.Event{Op: opSave, Phase: phase, Done: at, Total: size, Unit: "bytes"})
		}
	}
	return s, z.Close()
}

// checkPacked reads a compressed file back: it must decompress to the snapshot.
func checkPacked(f *os.File, want string) error {
	sum := sha256.New()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := spool.Unpack(sum, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return &fault.Error{Kind: fault.Internal, Cause: "compression", Msg: fmt.Sprintf("what was compressed decompresses to something else (SHA-256 %s instead of %s)", got, want)}
	}
	return nil
}

// writeError tells a disk that failed from what is no error of a disk. A reader
// that left is one here, other than elsewhere: the snapshot is not where it was to go.
func (o SaveOptions) writeError(err error) error {
	var perr *os.PathError
	if !errors.As(err, &perr) {
		return err
	}
	if errors.Is(perr.Err, syscall.EPIPE) {
		return &fault.Error{Kind: fault.Unavailable, Cause: "reader_left", Op: opSave, Subject: "standard output", Msg: "its reader left before the snapshot was written"}
	}
	return fileError(opSave, perr.Path, perr)
}
