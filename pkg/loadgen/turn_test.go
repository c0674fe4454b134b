package loadgen

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"kvd/pkg/loadgen/result"
)

// Turns that were due in the warm-up are not measured, but for what was waited for until
// the end: ten clients whose lists never come would else have left nothing at all.
func TestWhatIsWaitedForThroughout(t *testing.T) {
	for name, tc := range map[string]struct {
		warmup  time.Duration // of a run that began two seconds ago
		ended   bool
		send    error
		outcome string
		want    int64
	}{
		"answered late":              {time.Second, false, nil, result.OK, 0},
		"never answered":             {time.Second, true, context.Canceled, result.Unfinished, 1},
		"the run ended in its start": {time.Minute, true, context.Canceled, result.Unfinished, 0},
		"nothing before it":          {0, false, nil, result.OK, 1},
	} {
		run, end := context.WithCancel(t.Context())
		conns := &connections{apiservers: 1, endpoints: []string{"http://127.0.0.1:1"}, open: map[connKey]*clientv3.Client{}, dial: func(ep string) (*clientv3.Client, error) {
			return clientv3.New(clientv3.Config{Endpoints: []string{ep}, Logger: zap.NewNop()})
		}}
		env := &Env{rec: newRecorder(), run: run, conns: conns, timeout: time.Second}
		env.rec.begin(time.Now().Add(-2*time.Second), tc.warmup)
		due := time.Now().Add(-1500 * time.Millisecond)
		turn := &Turn{Due: due, env: env, from: due}
		if tc.ended {
			end()
		}
		_ = turn.Do(t.Context(), "range", "pods", func(context.Context, *clientv3.Client) (Reply, error) { return Reply{}, tc.send })
		turn.Observe("list", "pods", tc.outcome, 0)
		var totals result.Totals
		env.rec.finish(&totals)
		got := map[string]int64{}
		for _, l := range totals.Ops {
			got[l.Name()+" "+l.Outcome] += l.Response.Count()
		}
		if got["range pods "+tc.outcome] != tc.want || got["list pods "+tc.outcome] != tc.want {
			t.Errorf("%s: measured %v, want %d of each", name, got, tc.want)
		}
		end()
		conns.close()
	}
}
