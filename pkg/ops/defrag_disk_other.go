//go:build !linux

package ops

import "errors"

// freeBytes is not known on this system.
func freeBytes(string) (int64, error) { return 0, errors.New("free space is not read on this system") }

// diskOfListener finds nothing on this system.
func diskOfListener(string) (defragDisk, bool) { return defragDisk{}, false }
