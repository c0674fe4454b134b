package keyspace_test

import (
	"fmt"
	"testing"

	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// TestLookWithFewOperations looks at a member that takes fewer operations in a
// transaction than etcd's default.
func TestLookWithFewOperations(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync", "--max-txn-ops=20"}}})
	cli := c.Client(t)
	for i := range 200 {
		if _, err := cli.Put(t.Context(), fmt.Sprintf("/k/%04d", i), "value"); err != nil {
			t.Fatal(err)
		}
	}
	u, err := keyspace.Look(t.Context(), connect(t, c, 0), keyspace.DefaultLookOptions(), progress.Discard)
	if err != nil || u.Keys != 200 || u.Groups[0].Sampled < 50 {
		t.Errorf("%d keys, %v: %v", u.Keys, u.Groups, err)
	}
}
