//go:build !linux

package snapshot

import (
	"errors"
	"os"
)

func lockFile(*os.File) bool { return true }

func tryLock(*os.File) error { return errors.ErrUnsupported }

func reserve(*os.File, int64) error { return nil }
