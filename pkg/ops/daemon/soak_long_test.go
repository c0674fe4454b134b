//go:build long

package daemon_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kvd/pkg/ops/plan"
)

// soakTime is how long the soak lasts; KVD_TEST_SOAK makes it shorter or longer.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	s := os.Getenv("KVD_TEST_SOAK")
	if s == "" {
		return 10 * time.Minute
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// churn writes as the parts of a Kubernetes cluster do, and remembers what was
// acknowledged.
type churn struct {
	written, failed atomic.Int64
	mu              sync.Mutex
	acked           map[string]int64 // key → the number in the last value that etcd has taken
	tried           map[string]int64 // and in the last that was sent
}

// soakKinds are the writes of a small cluster: name, objects, bytes, and writes
// per second. Some 240 KB/s in all.
var soakKinds = []struct {
	path             string
	objects, size    int
	writesPerSecond  float64
	deletedAndRemade bool
}{
	{"leases/kube-node-lease/node", 60, 400, 15, false},
	{"minions/node", 60, 8 << 10, 8, false},
	{"pods/default/pod", 300, 5 << 10, 25, true},
	{"endpointslices/default/svc", 40, 3 << 10, 10, false},
	{"events/default/event", 400, 1 << 10, 15, true},
}

func (c *churn) run(ctx context.Context, s *stage, t *testing.T) {
	var wg sync.WaitGroup
	for k, kind := range soakKinds {
		cli := s.Client(t)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(k)))
			tick := time.NewTicker(time.Duration(float64(time.Second) / kind.writesPerSecond))
			defer tick.Stop()
			filler := make([]byte, kind.size)
			for i := range filler {
				filler[i] = 'a' + byte(rng.IntN(26))
			}
			for n := int64(1); ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				key := fmt.Sprintf("/registry/%s-%03d", kind.path, rng.IntN(kind.objects))
				rctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				if kind.deletedAndRemade && n%3 == 0 {
					_, _ = cli.Delete(rctx, key)
				}
				c.mu.Lock()
				c.tried[key] = n
				c.mu.Unlock()
				_, err := cli.Put(rctx, key, fmt.Sprintf("%d %s", n, filler))
				cancel()
				if err != nil {
					if ctx.Err() == nil {
						c.failed.Add(1)
					}
					continue
				}
				c.written.Add(1)
				c.mu.Lock()
				c.acked[key] = n
				c.mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// lost returns the keys whose value is older than the last that was taken. A
// write whose request failed may or may not have been carried out.
func (c *churn) lost(t *testing.T, s *stage) []string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for key, want := range c.acked {
		r, err := s.cli.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Kvs) == 0 {
			if c.tried[key] == want {
				out = append(out, key+": gone")
			}
			continue
		}
		head, _, _ := strings.Cut(string(r.Kvs[0].Value), " ")
		if n, _ := strconv.ParseInt(head, 10, 64); n < want || n > c.tried[key] {
			out = append(out, fmt.Sprintf("%s: %d, and %d was acknowledged", key, n, want))
		}
	}
	return out
}

// TestSoak leaves both schedules alone with a cluster that would be full in a
// few minutes without them.
func TestSoak(t *testing.T) {
	t.Parallel()
	const quota = 48 << 20
	s := newStage(t, 3, quota, 1)
	ends := strings.Join(s.Endpoints(), ",")
	compact := launch(t, "compact", "--endpoints", ends, "--schedule", "@every 20s", "--keep-duration", "30s", "--state-dir", t.TempDir(), "-o", "json")
	// What is free when the tick comes depends on how long ago the other schedule has
	// compacted: often enough it is a twentieth.
	defrag := launch(t, "defrag", "--endpoints", ends, "--schedule", "@every 60s", "--if", "free_ratio > 0.05", "--min-gain", "1MiB", "-o", "json")
	rival := launch(t, "defrag", "--endpoints", ends, "--schedule", "@every 60s", "--if", "free_ratio > 0.05", "--min-gain", "1MiB", "-o", "json")

	d := soakTime(t)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	c := &churn{acked: map[string]int64{}, tried: map[string]int64{}}
	watched := s.watch(t)
	var largest atomic.Int64
	var side sync.WaitGroup
	side.Go(func() {
		for ctx.Err() == nil {
			for i := range s.Len() {
				if st, err := s.cli.Status(ctx, s.Endpoint(i)); err == nil {
					largest.Store(max(largest.Load(), st.DbSize))
					if len(st.Errors) > 0 {
						t.Errorf("%s: %v", s.Name(i), st.Errors)
						cancel()
					}
				}
			}
			<-time.After(time.Second)
		}
	})
	c.run(ctx, s, t)
	side.Wait()
	one, more := watched()
	for name, p := range map[string]*process{"compact": compact, "defrag": defrag, "rival": rival} {
		if code := p.exit(syscall.SIGTERM); code != 0 {
			t.Errorf("%s: exit code %d", name, code)
		}
	}
	bytesWritten := int64(float64(c.written.Load()) * 3400)
	t.Logf("%s: %d writes (some %d MiB), %d requests failed, largest file %d MiB of %d; compacted %d times, defragmented in %d runs, failed runs %d and %d; seen in flight %d times",
		d, c.written.Load(), bytesWritten>>20, c.failed.Load(), largest.Load()>>20, quota>>20, count(compact.all(), plan.OutcomeDone),
		count(defrag.all(), plan.OutcomeDone)+count(rival.all(), plan.OutcomeDone), failures(compact), failures(defrag)+failures(rival), one)
	if more > 0 {
		t.Errorf("two members were defragmented at once: %d samples", more)
	}
	if lost := c.lost(t, s); len(lost) > 0 {
		t.Errorf("%d of %d keys lost a write: %v", len(lost), len(c.acked), lost[:min(5, len(lost))])
	}
	if largest.Load() > quota*3/4 {
		t.Errorf("a file grew to %d bytes", largest.Load())
	}
	// Every request that failed is counted; under one in a hundred may.
	if f, w := c.failed.Load(), c.written.Load(); w < int64(d.Seconds()*20) || f > w/100 {
		t.Errorf("%d writes, %d failed", w, f)
	}
	if n := count(compact.all(), plan.OutcomeDone); n < int(d/(20*time.Second))/2-2 {
		t.Errorf("%d compactions", n)
	}
	if d >= 3*time.Minute && count(defrag.all(), plan.OutcomeDone)+count(rival.all(), plan.OutcomeDone) == 0 {
		t.Error("nothing was defragmented")
	}
	if len(defrag.all()) > 0 && len(rival.all()) > 0 {
		t.Errorf("both ran: %d and %d reports", len(defrag.all()), len(rival.all()))
	}
}

func failures(p *process) int {
	return count(p.all(), plan.OutcomeFailed) + count(p.all(), plan.OutcomePartial)
}
