//go:build long

package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kvd/pkg/ops"
	"kvd/pkg/ops/daemon"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/schedule"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// TestTwoSchedulersRepeated is the whole of it: 20 times, on clusters of 3 and 5.
func TestTwoSchedulersRepeated(t *testing.T) {
	t.Parallel()
	for members, times := range map[int]int{3: 20, 5: 4} {
		s := newStage(t, members, 0, 12)
		for range times {
			s.fragment(t, 6)
			compete(t, s, nil)
			if t.Failed() {
				return
			}
		}
	}
}

// TestTwoSchedulersFromNoSpaceRepeated: other sizes, other quotas.
func TestTwoSchedulersFromNoSpaceRepeated(t *testing.T) {
	t.Parallel()
	for _, quota := range []int64{12 << 20, 24 << 20} {
		for range 3 {
			s := newStage(t, 3, quota, 2)
			s.fillUp(t)
			blindly(t, s)
		}
	}
}

// TestHolderKilled: after a kill -9 in the middle of a run another scheduler runs
// at a tick within the TTL.
func TestHolderKilled(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{2 * time.Second, 5 * time.Second} {
		s := newStage(t, 3, 0, 8)
		s.fragment(t, 8)
		args := []string{"defrag", "--endpoints", strings.Join(s.Endpoints(), ","), "--schedule", "@every 1s", "--min-gain", "1MiB", "-o", "json", "--settle", "1s", "--election-ttl", ttl.String()}
		first := launch(t, args...)
		until(t, "is in the middle of a run", func() bool { return first.logged("state", "started") > 0 })
		second := launch(t, args...)
		until(t, "says whose run it is", func() bool { return second.logged("error", "another run by ") > 0 })
		killed := time.Now()
		first.exit(syscall.SIGKILL)
		until(t, "takes over", func() bool { return len(second.all()) > 0 || second.logged("state", "started") > 0 })
		// The TTL, the tick after it, and what a loaded machine adds. etcd looks
		// for ended leases every 500 ms.
		if took := time.Since(killed); took > ttl+12*time.Second {
			t.Errorf("TTL %s: took over after %s", ttl, took)
		} else {
			t.Logf("TTL %s: took over after %s", ttl, took)
		}
		until(t, "finishes what was left", func() bool {
			for i := range s.Len() {
				st, err := s.cli.Status(t.Context(), s.Endpoint(i))
				if err != nil || st.DbSize-st.DbSizeInUse > 4<<20 {
					return false
				}
			}
			return true
		})
		if code := second.exit(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// TestMemberKilledDuringTheRun: the run stops before it touches another and says
// which were done; the next ticks refuse until all voters are back, and then
// finish.
func TestMemberKilledDuringTheRun(t *testing.T) {
	t.Parallel()
	for _, members := range []int{3, 5} {
		s := newStage(t, members, 0, 4)
		s.fragment(t, 8)
		p := launch(t, "defrag", "--endpoints", strings.Join(s.Endpoints(), ","), "--schedule", "@every 3s", "--min-gain", "4MiB", "-o", "json", "--settle", "3s", "--metrics-listen", "127.0.0.1:0")
		until(t, "one member is done", func() bool { return p.logged("state", "done") > 0 })
		done := s.doneOne(t)
		s.Kill(done)
		until(t, "the run has ended", func() bool { return len(p.all()) > 0 })
		r := p.all()[0]
		if r.Outcome != plan.OutcomePartial {
			t.Errorf("outcome %s", r.Outcome)
		}
		states := map[plan.State]int{}
		for _, st := range r.Steps {
			if st.Action == "defragment" {
				states[st.State]++
			}
			if st.State == plan.Done && !strings.HasPrefix(st.Subject, s.Name(done)) {
				t.Errorf("%s is said to be done", st.Subject)
			}
		}
		if states[plan.Done] != 1 || states[plan.Failed] != 1 || states[plan.Skipped] != members-2 {
			t.Errorf("states %v", states)
		}
		until(t, "the next tick refuses", func() bool {
			return p.metrics()[`kvd_schedule_guard_refusals_total{guard="voter_missing",op="defrag"}`] >= 2
		})
		for i := range members {
			if i == done {
				continue
			}
			if n := s.completedOf(t, i); n != 0 {
				t.Errorf("%s was defragmented while a voter was missing", s.Name(i))
			}
		}
		if err := s.Restart(servertest.Context(t, 30*time.Second), done); err != nil {
			t.Fatal(err)
		}
		until(t, "the rest is done", func() bool {
			n := 0
			for i := range members {
				if i != done {
					n += int(s.completedOf(t, i))
				}
			}
			return n == members-1
		})
		if code := p.exit(syscall.SIGINT); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// TestStopFinishesTheMember: SIGTERM lets the member in hand finish and begins no
// other, a second one leaves.
func TestStopFinishesTheMember(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, 0, 24)
	s.fragment(t, 8)
	args := []string{"defrag", "--endpoints", strings.Join(s.Endpoints(), ","), "--schedule", "@every 1s", "--min-gain", "1MiB", "-o", "json", "--settle", "2s"}
	p := launch(t, args...)
	until(t, "a member is in hand", func() bool { return p.logged("state", "started") > 0 })
	if code := p.exit(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	total := uint64(0)
	for _, n := range s.completed(t) {
		total += n
	}
	reported := 0
	for _, r := range p.all() {
		for _, st := range r.Steps {
			if st.State == plan.Done && st.Action == "defragment" {
				reported++
			}
			if st.State == plan.Failed || st.State == plan.Interrupted {
				t.Errorf("%+v", st)
			}
		}
	}
	if total != uint64(reported) || total > 1 {
		t.Errorf("%d members defragmented, %d reported", total, reported)
	}
	// The second signal: with a hook that takes its time the step is in hand for
	// as long as is needed.
	p = launch(t, append(args, "--before-member", "sleep 30")...)
	until(t, "a member is in hand", func() bool { return p.logged("state", "started") > 0 })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, "says what it waits for", func() bool { return p.logged("msg", "stopping: a wait ends now") > 0 })
	<-time.After(time.Second) // a second one at once counts as the same
	if code := p.exit(syscall.SIGTERM); code != 143 {
		t.Errorf("exit code %d after a second signal", code)
	}
}

// TestStartsBeforeItsCluster: at boot etcd may come later.
func TestStartsBeforeItsCluster(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	p := launch(t, "compact", "--endpoints", c.Endpoint(0), "--schedule", "@every 1s", "--keep-revisions", "5", "-o", "json", "--metrics-listen", "127.0.0.1:0")
	until(t, "tries again", func() bool { return p.logged("reason", "unavailable")+p.logged("msg", "trying again") > 1 })
	if err := c.StartMember(servertest.Context(t, 30*time.Second), 0); err != nil {
		t.Fatal(err)
	}
	cli := c.Client(t)
	for i := range 50 {
		if _, err := cli.Put(t.Context(), "k", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "compacts", func() bool { return count(p.all(), plan.OutcomeDone) > 0 })
	// A connection that is lost for a while.
	c.Kill(0)
	n := p.logged("reason", "unavailable")
	until(t, "goes on without its cluster", func() bool { return p.logged("reason", "unavailable") > n })
	if err := c.Restart(servertest.Context(t, 30*time.Second), 0); err != nil {
		t.Fatal(err)
	}
	runs := len(p.all())
	until(t, "runs again", func() bool { return len(p.all()) > runs })
	until(t, "metrics that agree with the log", func() bool {
		m := p.metrics()
		return m[`kvd_schedule_skipped_ticks_total{op="compact",reason="unavailable"}`] == float64(p.logged("reason", "unavailable")) &&
			m[`kvd_schedule_retries_total{op="compact"}`] == float64(p.logged("msg", "not reachable, trying again"))
	})
	if code := p.exit(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestKeepDuration: nothing younger than the time to keep is compacted, however
// often kvd is restarted, and with a state directory a restart costs nothing.
func TestKeepDuration(t *testing.T) {
	t.Parallel()
	for _, withState := range []bool{true, false} {
		s := newStage(t, 1, 0, 1)
		keep := 6 * time.Second
		args := []string{"compact", "--endpoints", s.Endpoint(0), "--schedule", "@every 1s", "--keep-duration", keep.String(), "-o", "json"}
		dir := filepath.Join(t.TempDir(), "state")
		if withState {
			args = append(args, "--state-dir", dir)
		}
		ctx, cancel := context.WithCancel(t.Context())
		type write struct {
			rev int64
			at  time.Time
		}
		writes := make(chan []write)
		go func() {
			var all []write
			for i := 0; ctx.Err() == nil; i++ {
				if r, err := s.cli.Put(ctx, "k", fmt.Sprint(i)); err == nil {
					all = append(all, write{r.Header.Revision, time.Now()})
				}
				<-time.After(20 * time.Millisecond)
			}
			writes <- all
		}()
		p := launch(t, args...)
		until(t, "says what it knows", func() bool { return p.logged("msg", "run ended") > 0 })
		if r := p.all()[0]; r.Outcome != plan.OutcomeNothing || !strings.Contains(r.Steps[0].Reason, "nothing is compacted yet") {
			t.Errorf("first run: %+v", r)
		}
		until(t, "compacts", func() bool { return count(p.all(), plan.OutcomeDone) > 1 })
		p.exit(syscall.SIGTERM)
		all := p.all()
		p = launch(t, args...)
		again := time.Now()
		until(t, "compacts again", func() bool { return count(p.all(), plan.OutcomeDone) > 0 })
		if took := time.Since(again); !withState && took < keep {
			t.Errorf("without a state directory it compacted %s after its start, and is to keep %s", took, keep)
		}
		if withState && p.all()[0].Outcome == plan.OutcomeNothing && strings.Contains(p.all()[0].Steps[0].Reason, "nothing is compacted yet") {
			t.Errorf("with a state directory the first run knows nothing: %+v", p.all()[0].Steps)
		}
		p.exit(syscall.SIGTERM)
		cancel()
		written := map[int64]time.Time{}
		for _, w := range <-writes {
			written[w.rev] = w.at
		}
		checked := 0
		for _, r := range append(all, p.all()...) {
			for _, st := range r.Steps {
				var rev int64
				if _, err := fmt.Sscanf(st.Action, "compact to revision %d", &rev); err != nil || st.State != plan.Done {
					continue
				}
				// The target itself stays readable; what it replaced was written before.
				if at, ok := written[rev]; ok {
					checked++
					if age := r.StartedAt.Sub(at); age < keep-200*time.Millisecond {
						t.Errorf("compacted to revision %d at the age of %s", rev, age)
					}
				}
			}
		}
		if checked < 3 {
			t.Errorf("only %d targets could be checked", checked)
		}
		if _, err := os.Stat(dir); withState == os.IsNotExist(err) {
			t.Errorf("state directory: %v", err)
		}
	}
}

// TestWindowEndsDuringARun: no further member is begun past the end.
func TestWindowEndsDuringARun(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, 0, 2)
	s.fragment(t, 4)
	g, release := newGate()
	// Time enough for one member, on a slow machine too, and not for the pause after it.
	g.base = time.Date(2026, 11, 29, 3, 59, 45, 0, time.UTC)
	r := s.rival(t, g, func(o *daemon.Options, d *ops.DefragOptions) {
		sched, err := schedule.Parse(schedule.Options{Expr: "59 4 * * *", Window: "01:00-05:00", Timezone: "UTC"}, g.base)
		if err != nil {
			t.Fatal(err)
		}
		o.Schedule, d.Settle = sched, 20*time.Second
	})
	until(t, "waits for its tick", func() bool { return r.logs.FilterMessage("next run").Len() > 0 })
	release() // it is 04:59:45 now
	until(t, "has run", r.decided)
	r.end(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	cut := 0
	for _, st := range r.reports[0].Steps {
		if st.State == plan.Failed && strings.Contains(st.Reason, "the window ended at 05:00 UTC") {
			cut++
		}
	}
	if n := r.reports[0]; n.Outcome != plan.OutcomePartial || cut != 1 {
		t.Errorf("outcome %s, %d steps refused: %+v", n.Outcome, cut, n.Steps)
	}
}

// doneOne returns the one member that has been defragmented.
func (s *stage) doneOne(t *testing.T) int {
	t.Helper()
	for i, n := range s.completed(t) {
		if n > 0 {
			return i
		}
	}
	t.Fatal("no member is done")
	return 0
}
