package snapshot

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// writeLook is how often a file that grows is looked at.
const writeLook = 10 * time.Millisecond

// writeEarly has the disk begin to write a file while somebody else fills it, until
// ctx ends: the system would wait with all of it for the fsync at the end. Nothing
// depends on it, so that what fails is left to that fsync.
func writeEarly(ctx context.Context, path string) {
	tick := time.NewTicker(writeLook)
	defer tick.Stop()
	var f *os.File
	for done := int64(0); ; {
		select {
		case <-ctx.Done():
			if f != nil {
				_ = f.Close() // only looked at
			}
			return
		case <-tick.C:
		}
		if f == nil {
			f, _ = os.Open(path) // not there yet: the next look tries again
			continue
		}
		if info, err := f.Stat(); err == nil && info.Size() > done {
			beginWriting(f, done, info.Size()-done)
			done = info.Size()
		}
	}
}

// beginWriting starts the writing of a part of a file, and does not wait for it.
func beginWriting(f *os.File, at, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), at, n, unix.SYNC_FILE_RANGE_WRITE)
}
