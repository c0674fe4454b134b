package k8s_test

import (
	"net"
	"testing"
	"time"

	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/server/local"
)

// Metrics that never come, as from behind a firewall, cost a row what they would have
// said: the sizes, which end a load in time, a member's status tells as well.
func TestSizesWithoutMetrics_more(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	const quota = 32 << 20
	s := newStage(t, local.Options{QuotaBytes: quota})
	o := k8s.DefaultObjectOptions()
	o.Size, o.Objects, o.Rate, o.Foreground.Nodes = 256<<10, 10, 100, 0
	opts := s.options()
	opts.Duration = 6 * time.Second
	opts.MetricsURLs[s.Name(0)] = "http://" + mute.Addr().String()
	r := s.play(t, &k8s.Objects{ObjectOptions: o}, opts)
	told := 0
	for _, row := range r.Rows {
		told += len(row.Members)
	}
	if told == 0 || r.Totals.Stopped != result.StoppedAtUsage {
		t.Errorf("in %d rows sizes were told %d times; stopped by %q, want %q", len(r.Rows), told, r.Totals.Stopped, result.StoppedAtUsage)
	}
}
