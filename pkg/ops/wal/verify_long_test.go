//go:build long

package wal_test

import (
	"testing"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Every scene, with the stock server that kvd serve is built on: it has no guards
// of its own before it starts.
func TestVerdictsOfStock(t *testing.T) {
	t.Parallel()
	holdScenes(t, local.Command{Path: servertest.Reference(t, "etcd")}, func(scene) bool { return true })
}

func TestVerifyLiveManyTimes(t *testing.T) {
	t.Parallel()
	looks(t, 100)
}
