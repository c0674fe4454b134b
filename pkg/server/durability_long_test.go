//go:build long

package server_test

import "testing"

func TestKillUnderLoadTwentyRounds(t *testing.T) {
	t.Run("three members", func(t *testing.T) { killUnderLoad(t, killRun{members: 3, rounds: 20, valueBytes: 200}) })
	t.Run("three members, mutual TLS, large values", func(t *testing.T) {
		killUnderLoad(t, killRun{members: 3, rounds: 20, valueBytes: 20_000, tls: true})
	})
	t.Run("five members, two killed at once", func(t *testing.T) {
		killUnderLoad(t, killRun{members: 5, rounds: 20, valueBytes: 200, atOnce: 2})
	})
}
