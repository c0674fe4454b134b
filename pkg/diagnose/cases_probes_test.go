package diagnose_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/servertest"
)

// every does something again and again until the test, or what it returns, ends it.
func every(t *testing.T, apart time.Duration, do func(context.Context)) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(apart)
		defer tick.Stop()
		for ctx.Err() == nil {
			do(ctx)
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// ask sends a GET as a probe does.
func ask(url string) func(context.Context) {
	return func(ctx context.Context) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}
}

// A probe asks /health while all is well; one on /livez is as it should be.
func TestCaseProbes(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	bad := every(t, 200*time.Millisecond, ask(c.Endpoint(0)+"/health?serializable=true"))
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-OPS-006 info")
	bad()
	good := every(t, 200*time.Millisecond, ask(c.Endpoint(0)+"/livez"))
	after := look(t, connect(t, c))
	good()
	belongs(t, after)
	remedied(t, "KVD-OPS-006", r, after, "have the probe ask /livez")
}

// Somebody polls a key; who watches it costs nothing.
func TestCasePolling(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client := c.Client(t)
	put(t, client, "config", 1, 1, 100)
	few := func(o *diagnose.CollectOptions) { o.Limits.ReadRate = 20 } // what a busy machine of tests has time for
	stopPolling := every(t, time.Millisecond, func(ctx context.Context) {
		_, _ = client.Get(ctx, "config0", clientv3.WithSerializable())
	})
	r := look(t, connect(t, c), few)
	belongs(t, r, "KVD-READ-004 info")
	stopPolling()
	ctx := servertest.Context(t, time.Minute)
	w := client.Watch(ctx, "config0", clientv3.WithCreatedNotify())
	<-w
	good := look(t, connect(t, c), few)
	belongs(t, good)
	remedied(t, "KVD-READ-004", r, good, "watch the key instead")
}
