//go:build !linux

package snapshot_test

import "testing"

func mountSmall(t *testing.T, _ string, _ int) { t.Skip("mounts on Linux only") }
