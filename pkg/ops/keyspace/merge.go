package keyspace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/spool"
)

const (
	spillBuffer = 256 << 10 // bytes of memory for each run that is read or written
)

// stored is where a run is in the file.
type stored struct{ from, to int64 }

// spillFile holds runs, one behind the other.
type spillFile struct {
	file *os.File
	dir  string // as it was given
	size int64
}

func newSpillFile(dir string) (*spillFile, error) {
	f, err := spool.Temp(dir)
	if err != nil {
		return nil, spillError(dir, err)
	}
	return &spillFile{file: f, dir: dir}, nil
}

// spillError says what the file is for.
func spillError(dir string, err error) error {
	if dir == "" {
		dir = os.TempDir()
	}
	e := fault.OfFile("sort keys", dir, "spill_file", err)
	e.Hint = "more keys than fit into memory are sorted in a file there; give a folder with more room with --spool-dir"
	return e
}

// write appends the run that a sorter has sorted.
func (f *spillFile) write(s *sorter) (stored, error) {
	from := f.size
	w := bufio.NewWriterSize(io.NewOffsetWriter(f.file, from), spillBuffer)
	for i, it := range s.items {
		key, body := s.record(it.at)
		var head [2 * binary.MaxVarintLen32]byte
		n := binary.PutUvarint(head[:], uint64(len(key)))
		n += binary.PutUvarint(head[n:], uint64(len(body)))
		f.size += int64(n + len(key) + len(body))
		_, err := w.Write(head[:n])
		if err == nil {
			_, err = w.Write(key)
		}
		if err == nil {
			_, err = w.Write(body)
		}
		if err == nil && i == len(s.items)-1 {
			err = w.Flush()
		}
		if err != nil {
			return stored{}, spillError(f.dir, err)
		}
	}
	return stored{from, f.size}, nil
}

// cursor reads one run from its first record to its last.
type cursor struct {
	key, body []byte
	order     int // of the run among all: earlier ones have the older records
	next      func(*cursor) error
}

// cursors returns one for each run of a sorter, the last one in memory and sorted.
func (s *sorter) cursors(order int) []*cursor {
	var out []*cursor
	for i, run := range s.runs {
		r := bufio.NewReaderSize(io.NewSectionReader(s.spill.file, run.from, run.to-run.from), spillBuffer)
		out = append(out, &cursor{order: order + i, next: func(c *cursor) error {
			err := c.read(r)
			if err != nil && !errors.Is(err, io.EOF) {
				return spillError(s.dir, err)
			}
			return err
		}})
	}
	i := 0
	return append(out, &cursor{order: order + len(s.runs), next: func(c *cursor) error {
		if i == len(s.items) {
			return io.EOF
		}
		c.key, c.body = s.record(s.items[i].at)
		i++
		return nil
	}})
}

// read takes the next record of a run in a file.
func (c *cursor) read(r *bufio.Reader) error {
	k, err := binary.ReadUvarint(r)
	if err != nil {
		return err // io.EOF at the run's end
	}
	v, err := binary.ReadUvarint(r)
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	if n := int(k + v); cap(c.key) < n { //nolint:gosec // as it was written
		c.key = make([]byte, n, n+n/4)
	}
	b := c.key[:k+v]
	if _, err = io.ReadFull(r, b); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // it is no end of the run
	}
	c.key, c.body = b[:k], b[k:]
	return err
}

// merged goes through the records of several sorters in the order of their keys.
// All records of one come before those of the next where their keys are the same.
// The slices are valid until fn returns.
func merged(sorters []*sorter, fn func(key, body []byte) error) error {
	var heap cursorHeap
	var wg sync.WaitGroup
	for _, s := range sorters {
		wg.Go(s.sort)
	}
	wg.Wait()
	for order, s := range sorters {
		for _, c := range s.cursors(order << 16) {
			if err := heap.push(c); err != nil {
				return err
			}
		}
	}
	for len(heap) > 0 {
		if err := fn(heap[0].key, heap[0].body); err != nil {
			return err
		}
		if err := heap.advance(); err != nil {
			return err
		}
	}
	return nil
}

// cursorHeap has the cursor with the smallest key at its root.
type cursorHeap []*cursor

func (h cursorHeap) less(i, j int) bool {
	c := bytes.Compare(h[i].key, h[j].key)
	return c < 0 || c == 0 && h[i].order < h[j].order
}

// push adds a cursor, unless its run is empty.
func (h *cursorHeap) push(c *cursor) error {
	if err := c.next(c); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	*h = append(*h, c)
	for i := len(*h) - 1; i > 0 && h.less(i, (i-1)/2); i = (i - 1) / 2 {
		(*h)[i], (*h)[(i-1)/2] = (*h)[(i-1)/2], (*h)[i]
	}
	return nil
}

// advance moves the cursor at the root on.
func (h *cursorHeap) advance() error {
	c := (*h)[0]
	if err := c.next(c); errors.Is(err, io.EOF) {
		last := len(*h) - 1
		(*h)[0] = (*h)[last]
		*h = (*h)[:last]
	} else if err != nil {
		return err
	}
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(*h) {
			return nil
		}
		if child+1 < len(*h) && h.less(child+1, child) {
			child++
		}
		if !h.less(child, i) {
			return nil
		}
		(*h)[i], (*h)[child] = (*h)[child], (*h)[i]
		i = child
	}
}
