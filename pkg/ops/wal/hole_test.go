package wal

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// What is said to be a hole has no data, whether or not the file system knows of it.
func TestBehindHole(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const data, size = 5 << 20, 8 << 20
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if at := behindHole(f, 100); at != 100 && at != math.MaxInt64 {
		t.Errorf("in a file without data, data begin at %d", at)
	}
	if _, err := f.WriteAt([]byte{1}, data); err != nil {
		t.Fatal(err)
	}
	if at := behindHole(f, 100); at < 100 || at > data {
		t.Errorf("with a byte at %d, data begin at %d", data, at)
	}
	if at := behindHole(f, data+1); at <= data {
		t.Errorf("behind the byte, data begin at %d", at)
	}
	if at := firstData(f, 100, size); at != data {
		t.Errorf("the first byte is at %d instead of %d", at, data)
	}
	if at := firstData(f, 100, data); at != -1 {
		t.Errorf("before the byte, the first is at %d", at)
	}
}
