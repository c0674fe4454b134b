package local_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A member that is cut off serves what it has and learns nothing new; after the
// mend it has everything.
func TestCut(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Cuttable: true, Args: noFsync()}, EqualContent: true})
	leader := c.Leader(t)
	victim := (leader + 1) % 3
	put := func(value string) {
		t.Helper()
		if _, err := c.Client(t, c.Endpoint(leader)).Put(servertest.Context(t, 30*time.Second), "k", value); err != nil {
			t.Fatal(err)
		}
	}
	put("before")
	want(t, c, victim, "before")
	for i := range 2 {
		if err := c.Cut(victim); err != nil {
			t.Fatal(err)
		}
		put(fmt.Sprint("during ", i))
		one := c.Client(t, c.Endpoint(victim))
		old, err := one.Get(servertest.Context(t, 30*time.Second), "k", clientv3.WithSerializable())
		if err != nil || string(old.Kvs[0].Value) == fmt.Sprint("during ", i) {
			t.Errorf("a member that is cut off serves %v, %v", old, err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		if resp, err := one.Get(short, "k"); err == nil {
			t.Errorf("a member that is cut off serves a linearizable read: %v", resp)
		}
		cancel()
		want(t, c, (leader+2)%3, fmt.Sprint("during ", i)) // the third hears all of it
		c.Mend()
		waitUntil(t, "the member has caught up", func() bool {
			got, err := one.Get(servertest.Context(t, 10*time.Second), "k", clientv3.WithSerializable())
			return err == nil && string(got.Kvs[0].Value) == fmt.Sprint("during ", i)
		})
	}
}
