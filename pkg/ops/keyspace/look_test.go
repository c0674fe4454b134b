package keyspace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// connect returns a client for one member of a test's cluster.
func connect(t *testing.T, c *servertest.Cluster, i int) *cluster.MemberClient {
	t.Helper()
	cfg := cluster.Config{Endpoints: []string{c.Endpoint(i)}}
	if tls := c.TLS(); tls != nil {
		cfg.CACert, cfg.Cert, cfg.Key = tls.CA, tls.ClientCert, tls.ClientKey
	}
	client, err := cluster.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	m, err := client.At(c.Endpoint(i))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// truth is what a test wrote, by group: exact keys, and bytes of records.
type truth struct {
	keys  int64
	bytes float64
}

// fill writes n keys by name(i) with size(i) bytes each.
func fill(t *testing.T, cli *clientv3.Client, n int, name func(int) string, size func(int) int) {
	t.Helper()
	for at := 0; at < n; {
		var ops []clientv3.Op
		for total := 0; at < n && len(ops) < 100 && total < 500_000; at++ {
			ops = append(ops, clientv3.OpPut(name(at), strings.Repeat("v", size(at))))
			total += size(at)
		}
		if _, err := cli.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// measure reads everything the plain way: the truth to compare a look with.
func measure(t *testing.T, cli *clientv3.Client, prefix string) truth {
	t.Helper()
	resp, err := cli.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	sum := truth{keys: resp.Count}
	for _, kv := range resp.Kvs {
		sum.bytes += float64(17 + proto.Size(kv))
	}
	return sum
}

func group(t *testing.T, u keyspace.Usage, prefix string) keyspace.Group {
	t.Helper()
	for _, g := range u.Groups {
		if string(g.Prefix) == prefix {
			return g
		}
	}
	t.Fatalf("no group %q among %+v", prefix, u.Groups)
	return keyspace.Group{}
}

// TestLook compares what a look says with what was written: pods of mixed sizes,
// CRs, keys that are not Kubernetes', binary keys.
func TestLook(t *testing.T) {
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1}})
	cli, m := c.Client(t), connect(t, c, 0)
	fill(t, cli, 3000, func(i int) string { return fmt.Sprintf("/registry/pods/ns-%d/pod-%05d", i%7, i) },
		func(i int) int { return 500 + (i*7919)%3000 })
	fill(t, cli, 400, func(i int) string { return fmt.Sprintf("/registry/example.com/widgets/default/w%d", i) },
		func(int) int { return 8192 })
	fill(t, cli, 500, func(i int) string { return fmt.Sprintf("app\xff\x00/%d", i) }, func(int) int { return 100 })
	fill(t, cli, 20, func(i int) string { return fmt.Sprintf("flat%d", i) }, func(int) int { return 10 })
	for range 30 {
		fill(t, cli, 1, func(int) string { return "flat0" }, func(int) int { return 10 })
	}
	fill(t, cli, 1, func(int) string { return "/registry/secrets/kube-system/big" }, func(int) int { return 1 << 20 })

	prefixes := map[string]string{ // of the group: that of its keys
		"/registry/pods/": "/registry/pods/", "/registry/example.com/widgets/": "/registry/example.com/",
		"app\xff\x00/": "app", "": "flat", "/registry/secrets/": "/registry/secrets/",
	}
	for _, tc := range []struct {
		name   string
		change func(*keyspace.LookOptions)
	}{
		{"sample", func(o *keyspace.LookOptions) { o.Precision = 0.02 }},
		{"sample, 1 MiB", func(o *keyspace.LookOptions) { o.SampleBytes = 1 << 20 }},
		{"exact", func(o *keyspace.LookOptions) { o.Exact = true }},
		{"sample, server without streams", func(o *keyspace.LookOptions) { o.WithoutStream() }},
		{"exact, server without streams", func(o *keyspace.LookOptions) { o.Exact = true; o.WithoutStream() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := keyspace.DefaultLookOptions()
			tc.change(&o)
			u, err := keyspace.Look(t.Context(), m, o, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			all := measure(t, cli, "")
			t.Logf("%d keys, live %.0f ± %.0f, true %.0f; read %d bytes in %d requests", u.Keys, u.Live.Bytes, u.Live.Error, all.bytes, u.ReadBytes, u.Requests)
			if u.Keys != all.keys || u.Exact != o.Exact {
				t.Errorf("%d keys, exact %v; want %d, %v", u.Keys, u.Exact, all.keys, o.Exact)
			}
			// Three standard errors: a fixed seed per revision, so no flakes.
			within := func(what string, e keyspace.Estimate, want float64) {
				if slack := math.Max(1.53*e.Error, 0.5); math.Abs(e.Bytes-want) > slack {
					t.Errorf("%s: %.0f ± %.0f, true %.0f", what, e.Bytes, e.Error, want)
				}
			}
			if !strings.Contains(tc.name, "1 MiB") {
				within("all", u.Live, all.bytes)
			}
			for g, p := range prefixes {
				got, want := group(t, u, g), measure(t, cli, p)
				if got.Keys != want.keys {
					t.Errorf("%q: %d keys, want %d", g, got.Keys, want.keys)
				}
				if got.Sampled > 1 || got.Keys == got.Sampled {
					within(g, got.Bytes, want.bytes)
				}
			}
			if !o.Exact && u.ReadBytes > o.SampleBytes+1<<20 {
				t.Errorf("read %d bytes, budget %d", u.ReadBytes, o.SampleBytes)
			}
			if g := group(t, u, ""); g.History != 30 {
				t.Errorf("flat keys: %d older revisions at least, want 30", g.History)
			}
			if len(u.Spaces) != 9 || u.Spaces[0].Keys == 0 { // ns-0…6, default, kube-system
				t.Errorf("namespaces: %+v", u.Spaces)
			}
			for _, s := range u.Spaces {
				if s.Namespace != "ns-3" {
					continue
				}
				want := measure(t, cli, "/registry/pods/ns-3/")
				if s.Keys != want.keys || math.Abs(float64(s.Bytes)-want.bytes) > 0.15*want.bytes {
					t.Errorf("ns-3: %d keys, %d bytes; true %d, %.0f", s.Keys, s.Bytes, want.keys, want.bytes)
				}
			}
			b, err := json.Marshal(u)
			if err != nil || !strings.Contains(string(b), `"prefix_base64":"YXBw/wAv"`) || !strings.Contains(string(b), `"prefix":"/registry/pods/"`) {
				t.Errorf("JSON: %v %s", err, b)
			}
		})
	}
}

// However small the sample may be, a value is read, and what one value cannot tell is
// not said to be known.
func TestLookReadsOneValueAtLeast(t *testing.T) {
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1}})
	fill(t, c.Client(t), 100, func(i int) string { return fmt.Sprintf("/registry/pods/a/%d", i) }, func(int) int { return 4096 })
	o := keyspace.DefaultLookOptions()
	o.SampleBytes = 1
	u, err := keyspace.Look(t.Context(), connect(t, c, 0), o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for what, e := range map[string]keyspace.Estimate{"live": u.Live, "in pages": u.InPages, "the group": u.Groups[0].Bytes} {
		if e.Bytes < 100*4096 || e.Error < e.Bytes {
			t.Errorf("%s: %.0f ± %.0f of one value; want all of it, and that it is not known", what, e.Bytes, e.Error)
		}
	}
}

func TestMeasureWriteRate(t *testing.T) {
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1}})
	cli, m := c.Client(t), connect(t, c, 0)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		n := 0
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if _, err := cli.Put(ctx, "k", "v"); err == nil {
					n++
				}
			case <-ctx.Done():
				done <- n
				return
			}
		}
	}()
	began := time.Now()
	got, err := keyspace.MeasureWriteRate(t.Context(), m, time.Second)
	took := time.Since(began).Seconds()
	stop()
	want := float64(<-done) / took
	if err != nil || math.Abs(got-want) > 0.15*want {
		t.Errorf("%.1f revisions/s, %v; the writer made %.1f", got, err, want)
	}
}
