//go:build !linux

package snapshot

import (
	"context"
	"os"
)

// writeEarly is left to the system here.
func writeEarly(ctx context.Context, _ string) { <-ctx.Done() }

// beginWriting is left to the system here.
func beginWriting(*os.File, int64, int64) {}
