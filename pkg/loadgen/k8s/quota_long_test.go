//go:build long

package k8s_test

import (
	"testing"
	"time"

	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/server/local"
)

// A quota that would be full before the next look at it is not filled: the load
// counts what it writes itself.
func TestNoQuotaIsFilledBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	const quota = 128 << 20
	s := newStage(t, local.Options{QuotaBytes: quota})
	o := k8s.DefaultObjectOptions()
	o.Size, o.Objects, o.Rate, o.Foreground.Nodes = 256<<10, 10, 100, 0
	opts := s.options()
	opts.Duration = 20 * time.Second
	r := s.play(t, &k8s.Objects{ObjectOptions: o}, opts)
	if r.Totals.Stopped != result.StoppedAtUsage {
		t.Errorf("stopped by %q, want %q", r.Totals.Stopped, result.StoppedAtUsage)
	}
	if n := r.Count(func(op result.Op) bool { return op.Outcome == result.NoSpace }); n > 0 {
		t.Errorf("%d writes were refused for want of space", n)
	}
	if after := r.Totals.Servers[0].DBAfter; after >= quota {
		t.Errorf("the file has %d bytes of a quota of %d", after, quota)
	}
}
