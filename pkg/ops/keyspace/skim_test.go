package keyspace_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// TestSkim looks at key spaces whose names alone are more than may be read:
// counts stay exact, bytes stay within the error that is told, the budget holds.
func TestSkim_more(t *testing.T) {
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	cli, m := c.Client(t), connect(t, c, 0)
	// One large group whose sizes depend on the name, as namespaces' do; names
	// in decimal, and names like hashes; some small groups in between and after.
	fill(t, cli, 24000, func(i int) string { return fmt.Sprintf("/registry/events/ns-%02d/obj-%05d.17a0b1c2d3e4f506", i%30, i) },
		func(i int) int { return 100 + 10*(i%30) + i%17 })
	fill(t, cli, 9000, func(i int) string {
		return fmt.Sprintf("/registry/example.com/reports/default/%x-%d", uint32(i)*2654435761, i)
	}, func(i int) int { return 150 + i%100 })
	fill(t, cli, 40, func(i int) string { return "/registry/configmaps/a/c" + strconv.Itoa(i) }, func(int) int { return 1000 })
	fill(t, cli, 700, func(i int) string { return "/registry/pods/default/p" + strconv.Itoa(i) }, func(i int) int { return 400 + i%200 })
	fill(t, cli, 3000, func(i int) string { return "zz\xff" + strconv.Itoa(i) }, func(int) int { return 50 })

	for name, budget := range map[string]int64{"2 MiB": 2 << 20, "1.5 MiB": 3 << 19, "1 MiB, no streams": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			o := keyspace.DefaultLookOptions()
			o.SampleBytes = budget
			if strings.Contains(name, "no streams") {
				o.WithoutStream()
			}
			began := time.Now()
			u, err := keyspace.Look(t.Context(), m, o, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			all := measure(t, cli, "")
			t.Logf("listed %d of %d, live %.0f ± %.0f, true %.0f; read %d of %d bytes in %d requests, %s",
				u.Listed, u.Keys, u.Live.Bytes, u.Live.Error, all.bytes, u.ReadBytes, budget, u.Requests, time.Since(began).Round(time.Millisecond))
			if u.Keys != all.keys || u.Listed >= u.Keys || u.Listed < 1000 {
				t.Errorf("%d keys, want %d; %d listed", u.Keys, all.keys, u.Listed)
			}
			if u.Requests > 2000 {
				t.Errorf("%d requests", u.Requests)
			}
			if math.Abs(u.Live.Bytes-all.bytes) > 1.53*u.Live.Error || u.Live.Error > 0.15*all.bytes {
				t.Errorf("live %.0f ± %.0f, true %.0f", u.Live.Bytes, u.Live.Error, all.bytes)
			}
			if u.ReadBytes > budget+1<<20 {
				t.Errorf("read %d bytes, budget %d", u.ReadBytes, budget)
			}
			for _, g := range u.Groups {
				prefix := string(g.Prefix)
				if prefix == "" {
					prefix = "zz"
				}
				want := measure(t, cli, prefix)
				if !g.Loose && g.Keys != want.keys {
					t.Errorf("%q: %d keys, want %d", g.Prefix, g.Keys, want.keys)
				}
				if g.Loose != (g.Prefix == "") && g.Loose {
					t.Errorf("%q is loose", g.Prefix)
				}
				if math.Abs(g.Bytes.Bytes-want.bytes) > math.Max(1.53*g.Bytes.Error, 0.01*want.bytes) {
					t.Errorf("%q: %.0f ± %.0f bytes, true %.0f", g.Prefix, g.Bytes.Bytes, g.Bytes.Error, want.bytes)
				}
			}
			for _, s := range u.Spaces {
				if s.Namespace == "ns-07" && math.Abs(float64(s.Keys)-800) > 300 {
					t.Errorf("ns-07: about %d keys, true 800", s.Keys)
				}
			}
		})
	}
	if _, err := cli.Delete(t.Context(), "", clientv3.WithFromKey()); err != nil {
		t.Fatal(err)
	}
	u, err := keyspace.Look(t.Context(), m, keyspace.DefaultLookOptions(), progress.Discard)
	if err != nil || u.Keys != 0 || !u.Exact || len(u.Groups) != 0 {
		t.Errorf("an empty key space: %+v, %v", u, err)
	}
}
