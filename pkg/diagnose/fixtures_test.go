package diagnose_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/metrics"
)

// fixture is an input and the findings that belong to it, no others: every check is
// run over each. Inputs are told by what is different from a healthy cluster.
type fixture struct {
	name   string
	change func(*world)
	want   []string // "KVD-SPACE-001 critical"
}

// The rows of one check stand together: bad ones, good ones, and those that look bad
// and are not.
func fixtures() []fixture {
	return slices.Concat(raftFixtures(), spaceFixtures(), dataFixtures(), loadFixtures(), placeFixtures(), fileFixtures())
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is an Input in the making: m1 leads, m2 and m3 follow.
type world struct {
	in       *diagnose.Input
	counters [2]map[uint64]map[string]float64 // by sample, member, and series
	fsync    map[uint64][]float64             // observations between the samples, in seconds
	commit   map[uint64][]float64
	ranges   map[uint64][]float64 // how long ranges took; a member without does not tell
	rtt      map[string][]float64 // "m1>2": to the member with ID 2
}

// healthy is a cluster of three with two samples 10 s apart.
func healthy() *world {
	w := &world{in: &diagnose.Input{At: start.Add(10 * time.Second), Limits: diagnose.DefaultLimits()}, fsync: map[uint64][]float64{}, commit: map[uint64][]float64{}, ranges: map[uint64][]float64{}, rtt: map[string][]float64{}}
	for i := range 2 {
		v := cluster.View{At: start.Add(time.Duration(i) * 10 * time.Second), ID: 0xc1, Leader: 1}
		w.counters[i] = map[uint64]map[string]float64{}
		for id := uint64(1); id <= 3; id++ {
			v.Members = append(v.Members, member(id, i))
			w.counters[i][id] = map[string]float64{"process_start_time_seconds": 1000, "process_resident_memory_bytes": 100 * mib,
				"etcd_mvcc_db_total_size_in_bytes": 40 * mib, "etcd_debugging_mvcc_watch_stream_total": 4, "etcd_debugging_mvcc_watcher_total": 40,
				"etcd_debugging_mvcc_slow_watcher_total": 0, "etcd_server_slow_apply_total": 7, "etcd_debugging_mvcc_total_put_size_in_bytes": 80 * mib, "etcd_debugging_lease_granted_total": 9}
		}
		m := &diagnose.Moment{View: v, Metrics: map[uint64]*metrics.Sample{}}
		if i == 0 {
			w.in.Before = m
		} else {
			w.in.Now = m
		}
	}
	for id := uint64(1); id <= 3; id++ {
		w.fsync[id], w.commit[id] = repeat(0.002, 200), repeat(0.004, 100)
		w.in.Lists = append(w.in.Lists, diagnose.OwnList{Of: member(id, 1), Members: []cluster.Member{member(1, 1), member(2, 1), member(3, 1)}})
	}
	w.in.Keys = &keyspace.Usage{Revision: 50200, Oldest: 45000, Keys: 1000, Member: member(2, 1).Label(), InPages: keyspace.Estimate{Bytes: 20 * mib}, Live: keyspace.Estimate{Bytes: 19 * mib},
		Groups: []keyspace.Group{{Prefix: "/registry/pods/", Resource: "pods", Keys: 600, Bytes: keyspace.Estimate{Bytes: 12 * mib}, Share: 0.6, Largest: 30000},
			{Prefix: "/registry/leases/", Resource: "leases.coordination.k8s.io", Keys: 400, Bytes: keyspace.Estimate{Bytes: 7 * mib}, Share: 0.4, Largest: 500}}}
	w.in.Hosts = []diagnose.Host{{Of: "m2", Runs: true, File: 40 * mib, Total: 16 * gib, Free: 8 * gib, Source: "/proc"}}
	w.in.Leases = &diagnose.Leases{Member: "m1", Total: 40, Asked: []diagnose.LeaseLook{{ID: "a1", Granted: 3660, Keys: 900}}}
	return w
}

func member(id uint64, sample int) cluster.Member {
	n := fmt.Sprintf("m%d", id)
	return cluster.Member{ID: id, Name: n, Endpoint: "http://10.0.0." + fmt.Sprint(id) + ":2379", At: start.Add(time.Duration(sample) * 10 * time.Second),
		ClientURLs: []string{"http://10.0.0." + fmt.Sprint(id) + ":2379"}, PeerURLs: []string{"http://10.0.0." + fmt.Sprint(id) + ":2380"},
		Status: &cluster.Status{Version: "3.7.3", StorageVersion: "3.7.0", DBSize: 40 * mib, DBInUse: 30 * mib, Quota: 2 * gib, QuotaKnown: true, Leader: 1, RaftTerm: 5,
			Revision: 50000 + int64(sample)*200, RaftIndex: 60000 + uint64(sample)*200, AppliedIndex: 60000 + uint64(sample)*200}}
}

// status changes a member's status at both looks.
func (w *world) status(id uint64, change func(*cluster.Status)) {
	for _, m := range []*diagnose.Moment{w.in.Before, w.in.Now} {
		change(m.View.Members[id-1].Status)
	}
}

// now changes a member at the second look.
func (w *world) now(id uint64, change func(*cluster.Member)) { change(&w.in.Now.View.Members[id-1]) }

func (w *world) both(change func(*cluster.View)) {
	change(&w.in.Before.View)
	change(&w.in.Now.View)
}

// down takes a member away: it does not answer at either look.
func (w *world) down(id uint64, err error) {
	w.both(func(v *cluster.View) { v.Members[id-1].Status, v.Members[id-1].Err = nil, err })
	delete(w.counters[0], id)
	delete(w.counters[1], id)
	w.in.Lists = slices.DeleteFunc(w.in.Lists, func(l diagnose.OwnList) bool { return l.Of.ID == id })
}

// grow has a counter grow between the samples.
func (w *world) grow(id uint64, series string, by float64) {
	w.counters[0][id][series] = 1e6
	w.counters[1][id][series] = 1e6 + by
}

// gauge sets a series at both samples.
func (w *world) gauge(id uint64, series string, before, now float64) {
	w.counters[0][id][series], w.counters[1][id][series] = before, now
}

func (w *world) alarm(id uint64, typ string) {
	w.both(func(v *cluster.View) {
		v.Alarms = append(v.Alarms, cluster.Alarm{MemberID: id, MemberName: fmt.Sprintf("m%d", id), Type: typ, InMemberList: true, Source: "status of m1"})
	})
}

func (w *world) input(t *testing.T) *diagnose.Input {
	t.Helper()
	for i, m := range []*diagnose.Moment{w.in.Before, w.in.Now} {
		if m == nil {
			continue
		}
		for id, series := range w.counters[i] {
			s, err := metrics.Parse(strings.NewReader(w.text(i, id, series)), m.View.At)
			if err != nil {
				t.Fatal(err)
			}
			m.Metrics[id] = s
		}
	}
	return w.in
}

// text is what a member's /metrics says.
func (w *world) text(sample int, id uint64, series map[string]float64) string {
	var b strings.Builder
	for name, v := range series {
		bare, _, _ := strings.Cut(name, "{") // a series may have labels
		fmt.Fprintf(&b, "# TYPE %s untyped\n%s %g\n", bare, name, v)
	}
	const long = 5_000_000 // observations of a long life, all quick
	for name, now := range map[string][]float64{metrics.WALFsync: w.fsync[id], metrics.BackendCommit: w.commit[id]} {
		fmt.Fprintf(&b, "# TYPE %s histogram\n", name)
		buckets(&b, name, "", 0.001, 14, long, now[:len(now)*sample])
	}
	if got := w.ranges[id]; got != nil {
		const ranges = "etcd_server_range_duration_seconds"
		fmt.Fprintf(&b, "# TYPE %s histogram\n", ranges)
		buckets(&b, ranges, "", 0.0001, 20, 0, got[:len(got)*sample])
	}
	const rtt = "etcd_network_peer_round_trip_time_seconds"
	fmt.Fprintf(&b, "# TYPE %s histogram\n", rtt)
	for to := uint64(1); to <= 3; to++ {
		if got := w.rtt[fmt.Sprintf("m%d>%d", id, to)]; got != nil {
			buckets(&b, rtt, fmt.Sprintf("To=\"%x\",", to), 0.0001, 15, 0, got[:len(got)*sample])
		}
	}
	return b.String()
}

// buckets writes a histogram with bounds that double, as etcd's do: quick
// observations in the first bucket, and these.
func buckets(b *strings.Builder, name, labels string, first float64, n, quick int, more []float64) {
	sum := 0.0
	for _, v := range more {
		sum += v
	}
	for i, le := 0, first; i < n; i, le = i+1, le*2 {
		count := quick
		for _, v := range more {
			if v <= le {
				count++
			}
		}
		fmt.Fprintf(b, "%s_bucket{%sle=\"%g\"} %d\n", name, labels, le, count)
	}
	total := quick + len(more)
	bare := strings.TrimSuffix(labels, ",")
	fmt.Fprintf(b, "%s_bucket{%sle=\"+Inf\"} %d\n%s_sum{%s} %g\n%s_count{%s} %d\n", name, labels, total, name, bare, sum, name, bare, total)
}

func repeat(v float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func got(r diagnose.Report) []string {
	out := []string{}
	for _, f := range r.Findings {
		out = append(out, f.ID+" "+string(f.Severity))
	}
	slices.Sort(out)
	return out
}

func TestFixtures(t *testing.T) {
	for _, f := range fixtures() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			w := healthy()
			f.change(w)
			r := diagnose.Diagnose(w.input(t))
			want := slices.Sorted(slices.Values(f.want))
			if !slices.Equal(got(r), want) {
				t.Errorf("findings %q, want %q", got(r), want)
				for _, x := range r.Findings {
					t.Logf("%s %s: %s", x.ID, x.Severity, x.Summary)
				}
			}
			for _, x := range r.Findings {
				wellFormed(t, x)
			}
		})
	}
}

// wellFormed holds each finding to what every finding has.
func wellFormed(t *testing.T, f diagnose.Finding) {
	t.Helper()
	if f.Subject == "" || f.Summary == "" || f.Why == "" || len(f.Remedy) == 0 || len(f.Evidence) == 0 {
		t.Errorf("%s lacks something: %+v", f.ID, f)
	}
	for _, e := range f.Evidence {
		if e.What == "" || e.Source == "" || e.Text == "" && e.Unit == "" {
			t.Errorf("%s: evidence without what, source or unit: %+v", f.ID, e)
		}
	}
	if strings.HasSuffix(f.Summary, ".") {
		t.Errorf("%s: the summary ends in a full stop: %s", f.ID, f.Summary)
	}
}

// Each finding is given by a fixture, and by the check that says it may give it.
func TestEveryFindingHasAFixture(t *testing.T) {
	given := map[string]bool{}
	for _, f := range fixtures() {
		for _, w := range f.want {
			given[strings.Fields(w)[0]] = true
		}
	}
	listed := map[string]bool{}
	for _, c := range diagnose.Checks() {
		for _, id := range c.IDs {
			listed[id] = true
		}
	}
	for id := range diagnose.Catalogue() {
		if !given[id] {
			t.Errorf("%s: no fixture gives it", id)
		}
		if !listed[id] {
			t.Errorf("%s: no check lists it", id)
		}
	}
	for id := range listed {
		if _, ok := diagnose.Catalogue()[id]; !ok {
			t.Errorf("%s is not in the catalogue", id)
		}
	}
}

// Of a healthy cluster every check that has what it needs says what it measured.
func TestHealthy(t *testing.T) {
	r := diagnose.Diagnose(healthy().input(t))
	if len(r.Findings) > 0 {
		t.Errorf("findings: %q", got(r))
	}
	for _, c := range r.Checks {
		if c.Measured == "" {
			t.Errorf("check %q says nothing of what it measured", c.Check)
		}
	}
	if len(r.Checks) < 25 {
		t.Errorf("only %d checks were made", len(r.Checks))
	}
}
