//go:build long

package snapshot_test

import "testing"

// Every page edge, and a thousand places of each kind.
func TestCutsAndFlipsEverywhere(t *testing.T) {
	good := realRegistry(t)
	checkCuts(t, good, 1000, 1)
	checkFlips(t, good, 1000)
}
