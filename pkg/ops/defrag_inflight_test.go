package ops_test

import (
	"context"
	"io"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// TestDefragWaitsForNoSnapshot shows what the gate is for: a member whose
// snapshot is being read, slowly, answers nothing once it is to defragment, until
// the reader has gone. kvd refuses to begin.
func TestDefragWaitsForNoSnapshot(t *testing.T) {
	t.Parallel()
	// More than fits into the buffers on the way to the reader.
	c := fragmented(t, servertest.Options{Options: local.Options{Members: 1}}, 24, 16)
	client, view := connect(t, c)
	reading := func() (done func()) {
		ctx, cancel := context.WithCancel(t.Context())
		body, err := c.Client(t).Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(body, make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
		return func() { cancel(); _ = body.Close() }
	}
	done := reading()
	p := planned(t, client, view, quick(), progress.Discard)
	errorIs := func(err error) {
		t.Helper()
		if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != "snapshot_inflight" {
			t.Errorf("with a snapshot under way: %v", err)
		}
	}
	errorIs(p.Check(t.Context()))
	r, err := p.Run(t.Context(), nil, progress.Discard)
	errorIs(err)
	if r.Steps[0].State == plan.Done || defrags(t, c)[0] != 0 {
		t.Errorf("defragmented: %+v", r.Steps)
	}

	// What would have come of it.
	cli := c.Client(t)
	ended := make(chan error, 1)
	go func() { _, err := cli.Defragment(t.Context(), c.Endpoint(0)); ended <- err }()
	unanswered := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := cli.Get(ctx, "k")
		return err != nil
	}
	for begun := time.Now(); !unanswered(); <-time.After(50 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatal("the member answers reads while it defragments under a snapshot")
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("the defragmentation ended (%v) before the snapshot", err)
	default:
	}
	done()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	// The stream that is gone does not count any longer.
	fillFragmented(t, c, 1, 16)
	if view, err = client.View(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err = planned(t, client, view, quick(), progress.Discard).Run(t.Context(), nil, progress.Discard); err != nil || defrags(t, c)[0] != 2 {
		t.Errorf("without a snapshot: %v, %+v", err, r.Steps)
	}
}
