package drill_test

import (
	"testing"
	"time"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

func staleOptions(t *testing.T) drill.StaleOptions {
	t.Helper()
	o := drill.DefaultStaleOptions()
	o.Reads, o.Writes, o.Timeout, o.Dir = 30, 20, 2*time.Second, t.TempDir()
	o.Command = local.Command{Path: servertest.Binary(t), Args: []string{"serve", "--unsafe-no-fsync"}}
	return o
}

func playStale(t *testing.T, o drill.StaleOptions) (drill.StaleReport, error) {
	t.Helper()
	r, err := drill.StaleRead(t.Context(), o, progress.Discard)
	logReport(t, r, err)
	nothingLeft(t, o.Dir)
	return r, err
}

// checkStale asserts what must be so of every stale-read drill that was proved.
func checkStale(t *testing.T, o drill.StaleOptions, r drill.StaleReport) {
	t.Helper()
	if r.Outcome != drill.Proved || r.CleanedUp == nil || r.CleanedUp.Processes != o.Members || r.Follower == r.Leader {
		t.Errorf("outcome %s, missing %v, cleaned up %+v", r.Outcome, r.Missing, r.CleanedUp)
	}
	for name, at := range map[string]drill.StaleReads{"before": r.Before, "after": r.After} {
		if len(at.Reads) != 4 {
			t.Fatalf("%s: %+v", name, at)
		}
		for _, k := range at.Reads {
			if k.Reads != int64(o.Reads) || k.Fresh != k.Reads || k.Behind != 0 || k.Revision < at.Head || len(k.Latencies) != 4 {
				t.Errorf("%s: %+v", name, k)
			}
		}
	}
	if r.HeadRevision != r.CutRevision+int64(o.Writes)+1 || r.Before.Head != r.CutRevision || r.During.Head != r.CutRevision+int64(o.Writes) {
		t.Errorf("cut at %d, head %d; %d before, %d during", r.CutRevision, r.HeadRevision, r.Before.Head, r.During.Head)
	}
	if len(r.During.Reads) != 3 {
		t.Fatalf("%+v", r.During)
	}
	for i, k := range r.During.Reads {
		if i == 0 {
			if k.Through != r.Follower || k.Old != int64(o.Reads) || k.Revision != r.CutRevision || k.Behind != int64(o.Writes) {
				t.Errorf("cut off: %+v", k)
			}
		} else if k.Through != r.Leader || k.Fresh != int64(o.Reads) {
			t.Errorf("with the leader: %+v", k)
		}
		for j := 1; j < len(k.Latencies); j++ {
			if k.Latencies[j].Seconds < k.Latencies[j-1].Seconds {
				t.Errorf("latencies %+v", k.Latencies)
			}
		}
	}
	if len(r.Refused) != 2 || r.Refused[0].Answered || r.Refused[0].TookSeconds < o.Timeout.Seconds()/2 ||
		r.Refused[0].Error != "no answer: context deadline exceeded" || r.Refused[1].Answered || r.Refused[1].Error != "etcdserver: no leader" {
		t.Errorf("refused: %+v", r.Refused)
	}
	if r.AgeSeconds <= 0 || r.CaughtUpSeconds <= 0 || r.Leaderless <= 0 {
		t.Errorf("age %v, caught up %v, leaderless %v", r.AgeSeconds, r.CaughtUpSeconds, r.Leaderless)
	}
}

func TestStaleUsage(t *testing.T) {
	for name, change := range map[string]func(*drill.StaleOptions){
		"two members": func(o *drill.StaleOptions) { o.Members = 2 },
		"six members": func(o *drill.StaleOptions) { o.Members = 6 },
		"no read":     func(o *drill.StaleOptions) { o.Reads = 0 },
		"no write":    func(o *drill.StaleOptions) { o.Writes = 0 },
		"many writes": func(o *drill.StaleOptions) { o.Writes = 5000 },
		"no timeout":  func(o *drill.StaleOptions) { o.Timeout = 0 },
		"no folder":   func(o *drill.StaleOptions) { o.Dir = "/nonexistent" },
	} {
		o := drill.DefaultStaleOptions()
		o.Command.Path = "/nonexistent"
		change(&o)
		if _, err := drill.StaleRead(t.Context(), o, progress.Discard); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}
