//go:build long

package wal

import "testing"

func TestVerdictsAsEtcdEverywhere(t *testing.T) {
	t.Parallel()
	cutAndChange(t, 1, 2000)
}
