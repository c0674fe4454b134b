package diagnose_test

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/servertest"
)

// Of who writes, as many changes are looked at whether each has a revision of its own or
// a hundred share one; where there are fewer, all of them.
func TestLatestChanges(t *testing.T) {
	c := servertest.Start(t, servertest.Options{})
	kv := c.Client(t)
	client := connect(t, c)
	put := func(revisions, changes int) {
		t.Helper()
		for i := range revisions {
			var ops []clientv3.Op
			for j := range changes {
				ops = append(ops, clientv3.OpPut(fmt.Sprintf("/registry/pods/default/p%d-%d", i, j), "value"))
			}
			if _, err := kv.Txn(t.Context()).Then(ops...).Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	looked := func() *diagnose.Writes {
		t.Helper()
		o := options()
		o.Interval, o.Revisions = 0, 300
		in, err := diagnose.Collect(servertest.Context(t, time.Minute), client, o, discard)
		if err != nil || in.Writes == nil {
			t.Fatalf("%v, %+v", err, in)
		}
		return in.Writes
	}
	put(30, 1)
	if w := looked(); w.To-w.From+1 != 30 || w.Distinct != 30 {
		t.Errorf("30 changes: %+v", w)
	}
	put(1000, 1)
	if w := looked(); w.To-w.From+1 != 300 || w.Distinct != 300 {
		t.Errorf("single changes: %+v", w)
	}
	put(60, 10)
	if w := looked(); w.To-w.From+1 != 30 || w.Distinct != 300 {
		t.Errorf("ten in each: %+v", w)
	}
	put(60, 100)
	if w := looked(); w.To-w.From+1 != 20 || w.Distinct != 2000 {
		t.Errorf("a hundred in each: %+v", w)
	}
}
