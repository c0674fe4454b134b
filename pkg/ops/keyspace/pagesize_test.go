package keyspace_test

import (
	"fmt"
	"testing"

	"kvd/pkg/ops/keyspace"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// TestOneLargePageIsTheLast_more reads small values with large ones behind them, in the
// pages of servers before 3.7. The page that comes upon the large ones is large: how
// large they are is not known before. Those behind it are not.
func TestOneLargePageIsTheLast_more(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	cli := c.Client(t)
	fill(t, cli, 2000, func(i int) string { return fmt.Sprintf("/registry/secrets/a/%04d", i) }, func(int) int { return 2 << 10 })
	fill(t, cli, 600, func(i int) string { return fmt.Sprintf("/registry/secrets/b/%04d", i) }, func(int) int { return 100 << 10 })
	sizes := keyspace.PageSizes(t, connect(t, c, 0))
	large := 0
	for _, n := range sizes {
		if n > 4<<20 {
			large++
		}
	}
	if large != 1 {
		t.Errorf("%d pages are larger than 4 MiB: %v", large, sizes)
	}
}
