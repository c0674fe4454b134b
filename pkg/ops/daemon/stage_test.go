package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/plan"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// stage is a real cluster with something to defragment.
type stage struct {
	*servertest.Cluster
	cli *clientv3.Client
}

func newStage(t *testing.T, members int, quota int64, live int) *stage {
	t.Helper()
	c := servertest.Start(t, servertest.Options{Options: local.Options{
		Members: members, QuotaBytes: quota, Args: []string{"--unsafe-no-fsync"}}})
	s := &stage{c, c.Client(t)}
	s.put(t, "live", live)
	return s
}

// put writes so many MiB.
func (s *stage) put(t *testing.T, prefix string, mib int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(mib)))
	value := make([]byte, 256<<10)
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	for i := range mib * 4 {
		if _, err := s.cli.Put(t.Context(), fmt.Sprintf("%s/%05d", prefix, i), string(value)); err != nil {
			t.Fatal(err)
		}
	}
}

// fragment leaves about so many MiB free in every member's file.
func (s *stage) fragment(t *testing.T, mib int) {
	t.Helper()
	s.put(t, "freed", mib)
	del, err := s.cli.Delete(t.Context(), "freed/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.cli.Compact(t.Context(), del.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	s.settled(t, int64(mib)<<20*8/10)
}

// settled waits until every member counts so many bytes as free.
func (s *stage) settled(t *testing.T, free int64) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); ; <-time.After(100 * time.Millisecond) {
		good := 0
		for i := range s.Len() {
			if st, err := s.cli.Status(t.Context(), s.Endpoint(i)); err == nil && st.DbSize-st.DbSizeInUse >= free {
				good++
			}
		}
		if good == s.Len() {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("the members free nothing")
		}
		_, _ = s.cli.Put(t.Context(), "tick", "") // pages count as free after the commit of a later write
	}
}

func (s *stage) connect(t *testing.T) *cluster.Client {
	t.Helper()
	cl, err := cluster.Connect(cluster.Config{Endpoints: s.Endpoints(), Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

// completed returns how many defragmentations each member has completed by its
// own count.
func (s *stage) completed(t *testing.T) []uint64 {
	t.Helper()
	out := make([]uint64, s.Len())
	for i := range out {
		out[i] = s.completedOf(t, i)
	}
	return out
}

func (s *stage) completedOf(t *testing.T, i int) uint64 {
	t.Helper()
	sample, err := metrics.Fetch(t.Context(), http.DefaultClient, s.Endpoint(i))
	if err != nil {
		t.Fatal(err)
	}
	h, _ := sample.Histogram(metrics.DefragDuration, nil)
	return h.Count
}

// watch samples every member's own etcd_disk_defrag_inflight until the returned
// function is called, which tells how often one and how often more than one was
// at it.
func (s *stage) watch(t *testing.T) (ended func() (one, more int)) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := make([][]episode, s.Len())
	var wg sync.WaitGroup
	for i := range s.Len() {
		wg.Go(func() { seen[i] = episodes(ctx, s.Endpoint(i)) })
	}
	return func() (one, more int) {
		cancel()
		wg.Wait()
		for i := range seen {
			for _, mine := range seen[i] {
				one += len(mine)
				for j := range i {
					for _, theirs := range seen[j] {
						more += mine.beside(theirs)
					}
				}
			}
		}
		return one, more
	}
}

// sample is when a member was asked and had answered that it was at it.
type sample struct{ from, to time.Time }

// episode is one defragmentation of a member: samples in a row, with none between
// them in which it was not at it.
type episode []sample

// episodes asks a member every 50 ms until ctx ends.
func episodes(ctx context.Context, endpoint string) []episode {
	var all []episode
	going := false
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return all
		case <-tick.C:
		}
		from := time.Now()
		yes, err := inflight(ctx, endpoint)
		switch {
		case err != nil: // it may be or not
		case !yes:
			going = false
		case going:
			all[len(all)-1] = append(all[len(all)-1], sample{from, time.Now()})
		default:
			all, going = append(all, episode{{from, time.Now()}}), true
		}
	}
}

// beside counts what shows that two members were at it at once. A sample was true
// at some moment of its request, so a member was at it for sure from the end of the
// first to the beginning of the last.
func (e episode) beside(other episode) (n int) {
	for _, pair := range [2][2]episode{{e, other}, {other, e}} {
		from, to := pair[1].sure()
		for _, a := range pair[0] {
			if a.from.After(from) && a.to.Before(to) {
				n++
			}
		}
	}
	from, to := e.sure()
	otherFrom, otherTo := other.sure()
	if from.Before(to) && otherFrom.Before(otherTo) && from.Before(otherTo) && otherFrom.Before(to) {
		n++
	}
	return n
}

func (e episode) sure() (from, to time.Time) { return e[0].to, e[len(e)-1].from }

func inflight(ctx context.Context, endpoint string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/metrics", nil)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(resp.Body)
	return strings.Contains(string(raw), "\netcd_disk_defrag_inflight 1\n"), err
}

// process is a kvd that was left on a timer.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}

	mu      sync.Mutex
	reports []plan.Report
	logs    []map[string]any
	addr    string
}

func launch(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(servertest.Binary(t), args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "KVD_CONFIG=")
	out, _ := p.cmd.StdoutPipe()
	errOut, _ := p.cmd.StderrPipe()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for sc := scanner(out); sc.Scan(); {
			var r plan.Report
			if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
				t.Errorf("stdout is no line of JSON: %s", sc.Text())
			}
			p.mu.Lock()
			p.reports = append(p.reports, r)
			p.mu.Unlock()
		}
	})
	wg.Go(func() {
		for sc := scanner(errOut); sc.Scan(); {
			line := map[string]any{}
			if json.Unmarshal(sc.Bytes(), &line) != nil {
				line["msg"] = sc.Text()
			}
			p.mu.Lock()
			p.logs = append(p.logs, line)
			if a, ok := line["address"].(string); ok {
				p.addr = "http://" + a
			}
			p.mu.Unlock()
		}
	})
	go func() { wg.Wait(); _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("the last log lines of kvd %v: %v", args[:2], p.tail())
		}
	})
	return p
}

func scanner(r io.Reader) *bufio.Scanner {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 4<<20)
	return sc
}

func (p *process) tail() []map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []map[string]any
	for _, l := range p.logs[max(0, len(p.logs)-12):] {
		out = append(out, map[string]any{"msg": l["msg"], "reason": l["reason"], "error": l["error"], "outcome": l["outcome"], "note": l["note"], "ts": l["ts"]})
	}
	return out
}

// all returns the reports so far.
func (p *process) all() []plan.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]plan.Report(nil), p.reports...)
}

// logged counts the log lines for which a field is as wanted.
func (p *process) logged(key, want string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, l := range p.logs {
		if s, _ := l[key].(string); strings.Contains(s, want) {
			n++
		}
	}
	return n
}

// dropped adds up the ticks that the log says fell into a run.
func (p *process) dropped() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0.0
	for _, l := range p.logs {
		if ticks, ok := l["ticks"].(float64); ok && l["reason"] == "running" {
			n += ticks
		}
	}
	return n
}

// until waits for something to be so.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(3 * time.Minute); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

// exit sends a signal and returns the exit code.
func (p *process) exit(s syscall.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(60 * time.Second):
		p.t.Fatalf("still there after %s", s)
	}
	return p.cmd.ProcessState.ExitCode()
}

// metrics returns what the process serves: series → value.
func (p *process) metrics() map[string]float64 {
	p.t.Helper()
	p.mu.Lock()
	addr := p.addr
	p.mu.Unlock()
	resp, err := http.Get(addr + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	out := map[string]float64{}
	for sc := scanner(resp.Body); sc.Scan(); {
		var v float64
		if i := strings.LastIndexByte(sc.Text(), ' '); i > 0 && sc.Text()[0] != '#' {
			if _, err := fmt.Sscan(sc.Text()[i+1:], &v); err != nil {
				p.t.Fatal(sc.Text(), err)
			}
			out[sc.Text()[:i]] = v
		}
	}
	return out
}
