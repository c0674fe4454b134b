package ops_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// writer is who makes the real write that an explanation is held against.
type writer struct {
	client *clientv3.Client
	token  string
	wait   time.Duration // 0: half a minute
	opts   []clientv3.OpOption
}

// put is the real write.
func (w writer) put(t *testing.T, o ops.WriteOptions) error {
	t.Helper()
	ctx := servertest.Context(t, cmp.Or(w.wait, 30*time.Second))
	if w.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "token", w.token)
	}
	if o.RequireLeader {
		ctx = clientv3.WithRequireLeader(ctx)
	}
	_, err := w.client.Put(ctx, o.Key, strings.Repeat("v", int(o.Value)), w.opts...)
	return err
}

// holds explains a write and then makes it, and wants one verdict from both:
// that it stops at a check (empty: that it is accepted), and the same words.
func holds(t *testing.T, kvd *cluster.Client, o ops.WriteOptions, w writer, stopsAt string) ops.WriteReport {
	t.Helper()
	r, err := ops.ExplainWrite(servertest.Context(t, time.Minute), kvd, o)
	if err != nil {
		t.Fatalf("explain: %v", err)
	}
	real := w.put(t, o)
	switch {
	case r.AtTheLatest:
		t.Errorf("key %.20q, %d bytes: %s at the latest, not known is %s; the real write: %v", o.Key, o.Value, r.StopsAt, r.Why, real)
	case r.StopsAt != stopsAt:
		t.Errorf("key %.20q, %d bytes: explained to stop at %q (%s), want %q; the real write: %v (%v)", o.Key, o.Value, r.StopsAt, r.Verdict, stopsAt, real, r.Err())
	case stopsAt == "" && (r.Verdict != ops.WriteAccepted || real != nil || r.Err() != nil):
		t.Errorf("key %.20q, %d bytes: verdict %s (%v), the real write: %v; want it accepted", o.Key, o.Value, r.Verdict, r.Err(), real)
	case stopsAt != "" && (r.Verdict != ops.WriteRefused || real == nil || !strings.HasSuffix(real.Error(), r.Error)):
		t.Errorf("key %.20q, %d bytes: verdict %s with %q, the real write: %v", o.Key, o.Value, r.Verdict, r.Error, real)
	}
	return r
}

func (p *place) writeTo(key string, value int64, member string) ops.WriteOptions {
	return ops.WriteOptions{WriteRequest: ops.WriteRequest{Key: key, Value: value}, Member: member}
}

// raise raises or clears an alarm as etcd does itself.
func (p *place) raise(t *testing.T, action pb.AlarmRequest_AlarmAction, typ pb.AlarmType, member uint64) {
	t.Helper()
	_, err := pb.NewMaintenanceClient(p.Client.ActiveConnection()).Alarm(servertest.Context(t, 20*time.Second),
		&pb.AlarmRequest{Action: action, Alarm: typ, MemberID: member})
	if err != nil {
		t.Fatal(err)
	}
}

// Quota and alarms: what is explained is what a real write gets, to the byte,
// with the quota and the keys of each set.
func TestExplainedQuotaAndAlarmsAreTheRealOnes(t *testing.T) {
	explainedQuotaAndAlarms(t, only(explainWorlds(), "1 member"))
}

func TestExplainedQuotaAndAlarmsAreTheRealOnes_more(t *testing.T) {
	explainedQuotaAndAlarms(t, except(explainWorlds(), "1 member"))
}

func explainWorlds() map[string]world {
	return map[string]world{
		"1 member":           {members: 1, quota: mib, keyFmt: "/registry/pods/default/p%d"},
		"3 members":          {members: 3, quota: 900_000, keyFmt: "/registry/secrets/kube-system/s%d"},
		"mTLS auth bin keys": {members: 1, quota: 1_300_000, secure: true, keyFmt: "\xff\xfe\x00%d"},
	}
}

func explainedQuotaAndAlarms(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			p.KVD = p.patient(t)
			m := p.Endpoint(p.members - 1)
			put := writer{client: p.Cluster.Client(t, m)}
			key := p.key(0)
			hold := func(value int64, stopsAt string) ops.WriteReport {
				t.Helper()
				defer p.committed(t)
				return holds(t, p.KVD, p.writeTo(key, value, m), put, stopsAt)
			}
			hold(100, "")
			holds(t, p.KVD, p.writeTo("", 100, m), put, "request")

			o := p.writeTo(key, 10, m)
			for id, stopsAt := range map[clientv3.LeaseID]string{p.grant(t, 600): "", 0x1234: "store"} {
				o.Lease = uint64(id)
				holds(t, p.KVD, o, writer{client: put.client, opts: []clientv3.OpOption{clientv3.WithLease(id)}}, stopsAt)
			}
			p.committed(t)

			// To the byte: one more than the quota lets pass.
			room := p.roomFor(t, key)
			r := hold(room+1, "quota")
			n := numbers(r, "quota")
			if n["db_size_bytes"]+n["cost_bytes"] != p.quota || n["cost_bytes"] != 256+int64(len(key))+room+1 {
				t.Errorf("quota: file %d + cost %d, want exactly the quota %d", n["db_size_bytes"], n["cost_bytes"], p.quota)
			}
			// That attempt raised the alarm: now nothing passes, but at another check.
			hold(10, "nospace_alarm")
			p.disarmAll(t)
			p.raise(t, pb.AlarmRequest_ACTIVATE, pb.AlarmType_CORRUPT, p.view(t).Leader)
			p.committed(t)
			hold(10, "corrupt_alarm")
			hold(p.roomFor(t, key)+1, "quota") // and NOSPACE beside CORRUPT
			hold(10, "corrupt_alarm")
			p.disarmAll(t)
			hold(p.roomFor(t, key), "")
		})
	}
}

// Sizes: the largest request that passes, and one byte more, at each of the
// three limits, for other limits and other users.
func TestExplainedSizesAreTheRealOnes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit  int64 // --max-request-bytes; 0: the default
		secure bool
		key    string
	}{
		"1.5 MiB":                 {0, false, "/registry/configmaps/default/c"},
		"512 KiB":                 {512 << 10, false, "k"},
		"64 KiB, mTLS and a user": {64 << 10, true, "\xff\x00" + strings.Repeat("long", 60)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			if c.limit > 0 {
				args = append(args, fmt.Sprintf("--max-request-bytes=%d", c.limit))
			}
			p := world{members: 1, secure: c.secure, keyFmt: "k%d"}.build(t, args...)
			p.KVD = p.patient(t)
			w := writer{client: p.Client}
			at := func(value int64) ops.WriteOptions {
				o := p.writeTo(c.key, value, p.Name(0))
				o.MaxRequest = c.limit
				return o
			}
			r := holds(t, p.KVD, at(10_000), w, "")
			n := numbers(r, "request_size")
			largest := 10_000 + n["limit_bytes"] - n["request_bytes"] + 2
			for n := numbers(explained(t, p, at(largest)), "request_size"); n["request_bytes"] > n["limit_bytes"]; n = numbers(explained(t, p, at(largest)), "request_size") {
				largest-- // a larger value has a longer length before it
			}
			holds(t, p.KVD, at(largest), w, "")
			holds(t, p.KVD, at(largest+1), w, "request_size")
			if c.limit > 0 {
				received := c.limit + 512<<10
				over := received - numbers(explained(t, p, at(received)), "receive_limit")["message_bytes"]
				holds(t, p.KVD, at(received+over), w, "request_size")
				holds(t, p.KVD, at(received+over+1), w, "receive_limit")
			}
			near := int64(2<<20) - 1000 // as many bytes of length before it as the one looked for
			sent := 2<<20 - 2 - (numbers(explained(t, p, at(near)), "send_limit")["message_bytes"] - near)
			for n := map[string]int64{}; n["message_bytes"] <= n["limit_bytes"]; n = numbers(explained(t, p, at(sent)), "send_limit") {
				sent++
			}
			holds(t, p.KVD, at(sent), w, "send_limit")
			holds(t, p.KVD, at(sent-1), w, stopAt(c.limit == 0, "request_size", "receive_limit"))
		})
	}
}

func stopAt(first bool, then, otherwise string) string {
	if first {
		return then
	}
	return otherwise
}

func explained(t *testing.T, p *place, o ops.WriteOptions) ops.WriteReport {
	t.Helper()
	r, err := ops.ExplainWrite(servertest.Context(t, time.Minute), p.KVD, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func numbers(r ops.WriteReport, check string) map[string]int64 {
	for _, s := range r.Steps {
		if s.Check == check {
			return s.Numbers
		}
	}
	return nil
}

// roomFor is the largest value of the key that the quota of the last member lets
// pass.
func (p *place) roomFor(t *testing.T, key string) int64 {
	t.Helper()
	n := numbers(explained(t, p, p.writeTo(key, 0, p.Endpoint(p.members-1))), "quota")
	return n["quota_bytes"] - n["db_size_bytes"] - n["cost_bytes"] - 1
}

func (p *place) disarmAll(t *testing.T) {
	t.Helper()
	if _, err := p.Client.AlarmDisarm(servertest.Context(t, 20*time.Second), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	p.committed(t)
}

// Who is writing: by password, by certificate, by token, nobody; within the
// range of a role and outside.
func TestExplainedWritersAreTheRealOnes(t *testing.T) {
	t.Parallel()
	for name, mutual := range map[string]bool{"passwords": false, "certificates": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}}
			var certs *servertest.Certs
			if mutual {
				certs = servertest.NewCerts(t)
				o.TLS = certs.MutualTLS()
			}
			p := &place{world: world{members: 1}, Cluster: servertest.Start(t, o)}
			p.EnableAuth(t, servertest.User{Name: "alice", Password: "pw", Prefix: "/a/"}, servertest.User{Name: "guest", Password: "pw", Prefix: "\xff"})
			connect := func(user string, cert servertest.Pair) *cluster.Client {
				t.Helper()
				cfg := patience(p.Endpoints())
				if mutual {
					cfg.CACert, cfg.Cert, cfg.Key = p.TLS().CA, cert.Cert, cert.Key
				}
				if user != "" {
					cfg.User, cfg.Password, _ = strings.Cut(user, ":")
				}
				c, err := cluster.Connect(cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c
			}
			var rootCert, guestCert servertest.Pair
			if mutual {
				rootCert, guestCert = certs.Client, certs.ClientFor("guest")
			}
			root := connect("root:"+servertest.RootPassword, rootCert)
			write := func(key string) ops.WriteOptions { return p.writeTo(key, 10, "") }
			as := func(user string) func(string) ops.WriteOptions {
				return func(key string) ops.WriteOptions {
					o := write(key)
					o.AsUser = user
					return o
				}
			}
			aliceClient, rootClient := p.ClientAs(t, "alice", "pw"), p.Cluster.Client(t)

			holds(t, root, write("anything"), writer{client: rootClient}, "")
			alice := connect("alice:pw", rootCert)
			r := holds(t, alice, write("/a/1"), writer{client: aliceClient}, "")
			if n := raftSent(r); n != 3 {
				t.Errorf("alice's roles took %d proposals, want 3: login, user, role", n)
			}
			holds(t, alice, write("/b"), writer{client: aliceClient}, "permission")
			holds(t, root, as("alice")("/a/\x00\xff"), writer{client: aliceClient}, "")
			holds(t, root, as("alice")("/a"), writer{client: aliceClient}, "permission")
			holds(t, root, as("guest")("\xff\xff"), writer{client: p.ClientAs(t, "guest", "pw")}, "")
			// alice may not read guest's roles: that can't be told, and is not guessed.
			if r := explained(t, &place{KVD: alice}, as("guest")("\xff")); r.Verdict != ops.WriteUnknown {
				t.Errorf("guest's rights, asked for by alice: %s at %s", r.Verdict, r.StopsAt)
			}

			plain := p.ClientAs(t, "", "")
			bad := write("/a/1")
			for _, token := range []string{"nobodysToken.1", "nothing"} {
				bad.Token = token
				holds(t, root, bad, writer{client: p.once(t), token: token}, "token")
			}
			// A token of a cluster that was further: the member waits to catch up with it.
			bad.Token = "nobodysToken.12345"
			// Which of the two ends it at the client's deadline, and in which words the
			// client is told so, is a race.
			r = explained(t, &place{KVD: root}, bad)
			err := writer{client: p.once(t), token: bad.Token, wait: time.Second}.put(t, bad)
			if r.StopsAt != "token" || err == nil || !strings.Contains(err.Error(), r.Error) &&
				!strings.Contains(err.Error(), "DeadlineExceeded") && !strings.Contains(err.Error(), "invalid auth token") {
				t.Errorf("a token that is ahead: stops at %q with %q; the real write: %v", r.StopsAt, r.Error, err)
			}
			good := write("/a/1")
			good.Token = p.token(t, plain, "alice")
			if r := explained(t, &place{KVD: root}, good); r.Verdict != ops.WriteUnknown || r.Steps[7].State != ops.StepPasses {
				t.Errorf("a good token that does not say whose it is: %s, step %s %s", r.Verdict, r.Steps[7].Check, r.Steps[7].State)
			}
			if mutual {
				// The certificate is the user where there is no other.
				holds(t, connect("", rootCert), write("x"), writer{client: plain}, "")
				guest := connect("", guestCert)
				r := explained(t, &place{KVD: guest}, write("x"))
				if r.User != "guest" || r.StopsAt != "permission" {
					t.Errorf("by the certificate of guest: user %q stops at %q", r.User, r.StopsAt)
				}
				if r := explained(t, &place{KVD: guest}, write("\xffx")); r.Verdict != ops.WriteAccepted {
					t.Errorf("by the certificate of guest, within its range: %s %s", r.Verdict, r.StopsAt)
				}
			}
		})
	}
}

// patience is a bundle that outlasts a machine with much else to do: these tests
// are about what is said, not about how fast.
func patience(endpoints []string) cluster.Config {
	return cluster.Config{Endpoints: endpoints, Source: "test",
		DialTimeout: 15 * time.Second, MemberTimeout: 20 * time.Second, CommandTimeout: 30 * time.Second}
}

// patient is connect with patience.
func (p *place) patient(t *testing.T) *cluster.Client {
	t.Helper()
	cfg := patience(p.Endpoints())
	if tls := p.TLS(); tls != nil {
		cfg.CACert, cfg.Cert, cfg.Key = tls.CA, tls.ClientCert, tls.ClientKey
	}
	if p.secure {
		cfg.User, cfg.Password = "root", servertest.RootPassword
	}
	c, err := cluster.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func raftSent(r ops.WriteReport) (n int) {
	for _, s := range r.Sent {
		if s.Raft {
			n += s.Count
		}
	}
	return n
}

// once is a client that tries once: etcd's own tries a hundred times when a token
// is refused, also where it has no user to get a new one for.
func (p *place) once(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	if len(endpoints) == 0 {
		endpoints = p.Endpoints()
	}
	cfg := clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), MaxUnaryRetries: 1}
	if c := p.TLS(); c != nil {
		info := transport.TLSInfo{TrustedCAFile: c.CA, CertFile: c.ClientCert, KeyFile: c.ClientKey}
		var err error
		if cfg.TLS, err = info.ClientConfig(); err != nil {
			t.Fatal(err)
		}
	}
	if p.secure {
		cfg.Username, cfg.Password = "root", servertest.RootPassword
	}
	c, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// token logs in and returns the token itself.
func (p *place) token(t *testing.T, c *clientv3.Client, user string) string {
	t.Helper()
	r, err := pb.NewAuthClient(c.ActiveConnection()).Authenticate(servertest.Context(t, 20*time.Second),
		&pb.AuthenticateRequest{Name: user, Password: "pw"})
	if err != nil {
		t.Fatal(err)
	}
	return r.Token
}
