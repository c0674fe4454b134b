//go:build long

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestLongScripts runs testdata/script-long/*.txtar: what takes a machine that has time
// for it.
func TestLongScripts(t *testing.T) { testscript.Run(t, scripts("testdata/script-long")) }
