package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const traceFile = "testdata/apiserver-trace/trace.jsonl.gz"

// traceLine is a line of the recorded trace, see its README.
type traceLine struct {
	T         float64 `json:"t"`
	Call      int     `json:"s"`
	Method    string  `json:"m"`
	Kind      string  `json:"k"`
	Bytes     int     `json:"n"`
	Conn      int     `json:"conn"`
	HasLeader bool    `json:"hasleader"`
	Code      string  `json:"code"`

	Key       string `json:"key"`
	RangeEnd  string `json:"range_end"`
	Limit     int64  `json:"limit"`
	CountOnly bool   `json:"count_only"`
	Revision  int64  `json:"revision"` // asked for, or of the answer's header
	KVs       int    `json:"kvs"`

	Compare   []traceCompare `json:"compare"`
	Then      []traceOp      `json:"then"`
	Else      []traceOp      `json:"else"`
	Succeeded bool           `json:"succeeded"`

	TTL   int64  `json:"ttl"`
	Lease string `json:"lease"`

	Watch          string       `json:"watch"` // create, progress, created
	StartRevision  int64        `json:"start_revision"`
	PrevKV         bool         `json:"prev_kv"`
	ProgressNotify bool         `json:"progress_notify"`
	Events         []traceEvent `json:"events"`

	Step  string  `json:"step"`
	Cmd   string  `json:"cmd"`
	Until float64 `json:"until"`
	Exit  int     `json:"exit"`
}

type traceCompare struct {
	Target string `json:"target"`
	Key    string `json:"key"`
	Value  int64  `json:"value"`
}

type traceOp struct {
	Op         string `json:"op"` // put, range, delete_range
	Key        string `json:"key"`
	ValueBytes int    `json:"value_bytes"`
	Value      string `json:"value"`
	Lease      string `json:"lease"`
}

type traceEvent struct {
	Type   string `json:"type"`
	Key    string `json:"key"`
	PrevKV bool   `json:"prev_kv"`
}

func readTrace(t *testing.T) []traceLine {
	t.Helper()
	f, err := os.Open(traceFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []traceLine
	for d := json.NewDecoder(z); ; {
		var l traceLine
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
}

// tracedWrite is a recorded write and what etcd answered.
type tracedWrite struct{ req, resp traceLine }

// tracedWrites are the recorded writes in the order in which etcd applied them.
func tracedWrites(trace []traceLine) []tracedWrite {
	asked := map[int]traceLine{}
	var all []tracedWrite
	for _, l := range trace {
		if l.Method != "KV/Txn" && l.Method != "KV/Compact" && l.Method != "Lease/LeaseGrant" {
			continue
		}
		switch l.Kind {
		case "req":
			asked[l.Call] = l
		case "resp":
			all = append(all, tracedWrite{asked[l.Call], l})
		}
	}
	slices.SortStableFunc(all, func(a, b tracedWrite) int {
		return cmp.Or(cmp.Compare(a.resp.Revision, b.resp.Revision), cmp.Compare(a.resp.T, b.resp.T))
	})
	return all
}

// replayedLeaseTTL is how long leases live that the API server gave a few
// seconds, so that what is on the cluster stays while a page is being compared.
const replayedLeaseTTL = 600

// replayTrace does to an empty cluster what the recorded API server did, with
// objects of the same keys and lengths, each write on the condition it had. It
// fails unless every comparison comes out as recorded, at the recorded revision.
func replayTrace(ctx context.Context, etcd *clientv3.Client, trace []traceLine) error {
	leases := map[string]clientv3.LeaseID{}
	for _, w := range tracedWrites(trace) {
		switch w.req.Method {
		case "KV/Compact":
			if _, err := etcd.Compact(ctx, w.req.Revision); err != nil {
				return fmt.Errorf("compact %d: %w", w.req.Revision, err)
			}
		case "Lease/LeaseGrant":
			l, err := etcd.Grant(ctx, max(w.req.TTL, replayedLeaseTTL))
			if err != nil {
				return fmt.Errorf("grant: %w", err)
			}
			leases[w.resp.Lease] = l.ID
		default:
			if err := replayTxn(ctx, etcd, w, leases); err != nil {
				return err
			}
		}
	}
	return nil
}

func replayTxn(ctx context.Context, etcd *clientv3.Client, w tracedWrite, leases map[string]clientv3.LeaseID) error {
	txn := etcd.Txn(ctx)
	for _, c := range w.req.Compare {
		if c.Target == "VERSION" {
			txn = txn.If(clientv3.Compare(clientv3.Version(c.Key), "=", c.Value))
		} else {
			txn = txn.If(clientv3.Compare(clientv3.ModRevision(c.Key), "=", c.Value))
		}
	}
	ops := func(traced []traceOp) []clientv3.Op {
		var ops []clientv3.Op
		for _, o := range traced {
			switch o.Op {
			case "put":
				value := cmp.Or(o.Value, strings.Repeat("v", o.ValueBytes))
				ops = append(ops, clientv3.OpPut(o.Key, value, clientv3.WithLease(leases[o.Lease])))
			case "delete_range":
				ops = append(ops, clientv3.OpDelete(o.Key))
			default:
				ops = append(ops, clientv3.OpGet(o.Key))
			}
		}
		return ops
	}
	r, err := txn.Then(ops(w.req.Then)...).Else(ops(w.req.Else)...).Commit()
	if err != nil {
		return fmt.Errorf("%+v: %w", w.req.Then, err)
	}
	if r.Succeeded != w.resp.Succeeded || r.Header.Revision != w.resp.Revision {
		return fmt.Errorf("%+v: succeeded %v at revision %d, recorded %v at %d", w.req.Then, r.Succeeded, r.Header.Revision,
			w.resp.Succeeded, w.resp.Revision)
	}
	return nil
}
