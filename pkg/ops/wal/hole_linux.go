package wal

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// behindHole returns the first offset from one on at which the file may have anything
// but zeros, math.MaxInt64 if there is none. Space that was allocated and never
// written is such a hole, to file systems that keep account of it; of others
// everything is data.
func behindHole(f *os.File, from int64) int64 {
	at, err := f.Seek(from, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO): // no data behind it (lseek(2))
		return math.MaxInt64
	case err != nil:
		return from
	}
	return at
}
