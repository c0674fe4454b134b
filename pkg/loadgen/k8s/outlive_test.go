package k8s_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A cluster that is gone at the end is no good end, also where nobody asked for an
// objective; one that lost a member of three and goes on is.
func TestAClusterThatDoesNotOutliveTheLoad_more(t *testing.T) {
	t.Parallel()
	for members, want := range map[int]fault.Kind{1: fault.Unavailable, 3: ""} {
		s := newStage(t, local.Options{Members: members})
		o := s.options()
		o.Duration, o.RequestTimeout, o.Drain = 5*time.Second, 2*time.Second, 3*time.Second
		defer time.AfterFunc(1500*time.Millisecond, func() { s.Kill(0) }).Stop()
		r := s.play(t, heartbeats(20, 200*time.Millisecond), o)
		err := result.Err(r, nil)
		if want != "" && fault.KindOf(err) != want || want == "" && err != nil {
			t.Errorf("%d members: %v (%q)", members, err, r.Totals.Deserted)
		}
		if broken := result.Err(r, result.Judge(r, []result.Objective{{Metric: "errors", Relation: "==", Bound: 0}})); fault.KindOf(broken) != fault.Wanting || strings.Contains(broken.Error(), "did not outlive") != (members == 1) {
			t.Errorf("%d members, and errors==0: %v", members, broken)
		}
	}
}

// pausing stops a member once the load is being made.
type pausing struct {
	loadgen.Scenario
	pause func() error
}

func (p pausing) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	if err := p.pause(); err != nil {
		return loadgen.Cast{}, err
	}
	return p.Scenario.Setup(ctx, env)
}

// What the load needs to find is not waited for without end either.
func TestSetupDoesNotWaitForAMemberThatHangs(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{})
	o := s.options()
	o.RequestTimeout = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := loadgen.Run(ctx, s.client, pausing{heartbeats(20, time.Second), func() error { return s.Pause(0) }}, o, nil, progress.Discard)
	if r != nil || fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != cluster.CauseNoAnswer || ctx.Err() != nil {
		t.Errorf("%v, %v", r, err)
	}
}

// A member that ends during a run of an A/B comparison ends the comparison: its
// figures are not of the variant.
func TestABWithAMemberThatEnds(t *testing.T) {
	t.Parallel()
	arm := loadgen.Arm{Name: "A", Members: 1, Options: loadgen.DefaultOptions(), Scenario: func() loadgen.Scenario { return heartbeats(10, 200*time.Millisecond) }}
	arm.Options.Warmup, arm.Options.Duration, arm.Options.RequestTimeout, arm.Options.Drain = 0, 8*time.Second, time.Second, time.Second
	arm.Options.Limits.Lag = time.Minute
	command := local.Command{Path: "timeout", Args: []string{"-s", "KILL", "5", servertest.Binary(t), "serve", "--unsafe-no-fsync"}}
	runs, err := loadgen.AB(t.Context(), [2]loadgen.Arm{arm, arm}, loadgen.ABOptions{Repeats: 2, Command: command}, nil, progress.Discard)
	if len(runs[0])+len(runs[1]) > 0 || fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != local.CauseExited || !strings.Contains(fmt.Sprint(err), "m1") {
		t.Errorf("%v, and %d runs are kept", err, len(runs[0])+len(runs[1]))
	}
}

// One that ends while a run is prepared is said to have ended as well, and not what
// became of the preparation.
func TestABWithAMemberThatEndsAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	kill := func() error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	arm := loadgen.Arm{Name: "A", Members: 1, Options: loadgen.DefaultOptions(), Scenario: func() loadgen.Scenario { return pausing{heartbeats(10, time.Second), kill} }}
	arm.Options.RequestTimeout = time.Second
	command := local.Command{Path: "sh", Args: []string{"-c", `echo $$ > "$0"; exec "$@"`, file, servertest.Binary(t), "serve", "--unsafe-no-fsync"}}
	runs, err := loadgen.AB(t.Context(), [2]loadgen.Arm{arm, arm}, loadgen.ABOptions{Repeats: 1, Command: command}, nil, progress.Discard)
	if len(runs[0])+len(runs[1]) > 0 || fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != local.CauseExited || !strings.Contains(fmt.Sprint(err), "m1") {
		t.Errorf("%v, and %d runs are kept", err, len(runs[0])+len(runs[1]))
	}
}

// A member that is restarted begins its counters anew: what it did before and after
// are added, and not forgotten.
func TestFiguresOfAMemberThatIsRestarted(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{})
	o := s.options()
	o.Duration, o.RequestTimeout = 6*time.Second, 5*time.Second
	restarted := make(chan error, 1)
	defer time.AfterFunc(3*time.Second, func() {
		s.Kill(0)
		restarted <- s.StartMember(context.Background(), 0)
	}).Stop()
	r := s.play(t, heartbeats(50, 100*time.Millisecond), o)
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	m := r.Totals.Servers[0]
	written := r.Latency(result.Op.Done).Bytes
	if m.PutBytes < float64(written)/2 || m.WALBytes < float64(written)/2 || m.CPU <= 0 || m.FsyncP99 <= 0 && m.CommitP99 <= 0 {
		t.Errorf("%d bytes were written; the member says %+v", written, m)
	}
	if !slices.ContainsFunc(r.Events, func(e result.Event) bool { return e.What == "member_restart" }) {
		t.Errorf("nothing tells of the restart: %v", r.Events)
	}
}

// Events that never came are late too: a shared stream that stands still brings
// none, and those few that it brought were quick.
func TestEventsThatDidNotCome(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{})
	o := s.options()
	o.Duration, o.Drain, o.APIServers = 4*time.Second, time.Second, 1
	w := &k8s.Watch{WatchOptions: k8s.DefaultWatchOptions()}
	w.Objects, w.Nodes, w.Informers, w.Slow, w.Streams, w.Rate = 50, 0, 5, 1, k8s.StreamsShared, 50
	w.SlowRate = 2 << 10 // an event has some 8 KiB
	r := s.play(t, w, o)
	came, missed := count(r, "watch_event", "pods", result.OK), count(r, "watch_event", "pods", result.Unfinished)
	written := count(r, "txn", "pods", result.OK)
	if due := 4 * written; missed < due/4 || came+missed > due || came+missed < due*8/10 { // who begins late has some in its list
		t.Errorf("%d events of %d writes came to 4 quick readers, %d are said not to have come", came, written, missed)
	}
	if p99 := r.Latency(func(op result.Op) bool { return op.RPC == "watch_event" && op.Resource == "pods" && op.Waited() }).Response.Quantile(0.99); p99 < time.Second {
		t.Errorf("p99 %s where most did not come", p99)
	}
}

// A list whose revision is compacted away between two pages begins anew, as a
// reflector's does.
func TestListsBeginAnewAfterACompaction(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{})
	o := s.options()
	o.Duration = 3 * time.Second
	l := &k8s.List{ListOptions: k8s.DefaultListOptions()}
	l.Objects, l.Nodes, l.PageSize, l.ClientQPS, l.Period, l.Clients = 300, 20, 20, 30, 600*time.Millisecond, 2
	kv := s.Client(t)
	ctx, stop := context.WithCancel(t.Context())
	compacted := make(chan error, 1)
	go func() { // again and again, so that each list is cut: its pages take half a second
		var err error
		for ctx.Err() == nil && err == nil {
			var put *clientv3.PutResponse
			if put, err = kv.Put(ctx, "x", ""); err == nil {
				_, err = kv.Compact(ctx, put.Header.Revision)
			}
			time.Sleep(150 * time.Millisecond)
		}
		compacted <- err
	}()
	r := s.play(t, l, o)
	stop()
	if err := <-compacted; err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if n := r.Totals.Counters["relists"]; n == 0 || count(r, "list", "pods", result.Failed) > 0 {
		t.Errorf("%v lists begun anew, %d failed", n, count(r, "list", "pods", result.Failed))
	}
	lists := count(r, "list", "pods", result.OK)
	if got := int64(r.Totals.Counters["objects_listed"]); got != lists*300 {
		t.Errorf("%d lists found %d objects", lists, got)
	}
	// 15 pages for each list, and for one that was cut fewer and then all in one answer.
	if sent := count(r, "range", "pods", result.OK); sent >= lists*15+int64(r.Totals.Counters["relists"]) {
		t.Errorf("%d requests for %d lists", sent, lists)
	}
	if bytes, n := bytesOf(r, "list", "pods"); n == 0 || bytes/n < 300*3800 || bytes/n > 300*4180 {
		t.Errorf("%d lists of %d bytes", n, bytes)
	}
}

// A cluster without a quorum is said to have none, and not to answer late.
func TestNoLoadWithoutALeader(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{Members: 3})
	s.Kill(0)
	s.Kill(1)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		v, err := s.client.View(t.Context())
		if err == nil && v.Leader == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it still has a leader: %v", err)
		}
	}
	if r, err := loadgen.Run(t.Context(), s.client, heartbeats(1, time.Second), s.options(), nil, progress.Discard); r != nil || fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != cluster.CauseNoQuorum {
		t.Errorf("%v, %v", r, err)
	}
}
