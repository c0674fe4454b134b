package keyspace_test

import (
	"fmt"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// TestAServerThatStartsOnAnOpenFile_more: the member was down when its file was opened, and
// comes up and writes before that is read. What was read is of different moments, and
// nothing is damaged.
func TestAServerThatStartsOnAnOpenFile_more(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	fill(t, c.Client(t), 500, func(i int) string { return fmt.Sprintf("/k/%04d", i) }, func(int) int { return 1000 })
	if err := c.StopMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s, err := keyspace.OpenFile(t.Context(), c.DataDir(0), keyspace.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // only read
	if err := c.StartMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	cli := c.Client(t)
	for range 5 {
		for i := range 300 {
			if _, err := cli.Put(t.Context(), fmt.Sprintf("/k/%04d", i), strings.Repeat("w", 3000)); err != nil {
				t.Fatal(err)
			}
		}
		commit(t, cli)
	}
	err = s.Keys(t.Context(), keyspace.Query{}, func(*keyspace.Item) error { return nil })
	if fault.KindOf(err) != fault.Inconclusive || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("process %d", c.PID(0))) {
		t.Errorf("read as %v: %v", fault.KindOf(err), err)
	}
	_, err = keyspace.BreakdownFile(t.Context(), s, keyspace.DefaultBreakdownOptions())
	if fault.KindOf(err) != fault.Inconclusive {
		t.Errorf("broken down as %v: %v", fault.KindOf(err), err)
	}
}
