package keyspace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"kvd/pkg/ops/kube/keys"
)

// TestInterval draws samples of populations whose sum is known, of kinds that
// key spaces are made of, and counts how often the interval holds it.
func TestInterval(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for name, size := range map[string]func(i int) int{
		"alike":      func(int) int { return 700 },
		"uniform":    func(int) int { return 100 + rnd.IntN(4000) },
		"two kinds":  func(i int) int { return 300 + 9000*(i%10/9) },
		"log-normal": func(int) int { return int(math.Exp(6.5 + 0.8*rnd.NormFloat64())) },
	} {
		const population, draws, rounds = 1000, 100, 200
		kvs, truth, zeros := map[string]*mvccpb.KeyValue{}, 0.0, make([]byte, 1<<20)
		var names []string
		for i := range population {
			kv := &mvccpb.KeyValue{Key: fmt.Appendf(nil, "/registry/pods/a/%d", i), Value: zeros[:min(size(i), len(zeros))], Version: 1}
			kvs[string(kv.Key)] = kv
			names = append(names, string(kv.Key))
			truth += float64(recordSize(kv))
		}
		held := 0
		for round := range rounds {
			ta := newTally(keys.Default(), 1, int64(round))
			for _, key := range names {
				s, _ := ta.count(kvs[key])
				ta.choose(s, key, 0)
			}
			ta.shuffle()
			s := ta.sorted()[0]
			for _, c := range s.chosen[:draws] {
				s.measure(nil, 0, kvs[c.key])
			}
			var u Usage
			ta.fill(&u)
			if math.Abs(u.Live.Bytes-truth) <= u.Live.Error+1 {
				held++
			}
		}
		t.Logf("%-10s held %d of %d times", name, held, rounds)
		if held < rounds*89/100 {
			t.Errorf("%s: the 95 %% interval held the truth %d of %d times", name, held, rounds)
		}
	}
}

// TestNamespacesOfWhatWasNotRead: what the budget did not reach counts as if it were
// like the rest, in its namespace as in its group.
func TestNamespacesOfWhatWasNotRead(t *testing.T) {
	ta := newTally(keys.Default(), 1, 6)
	for i := range 10 {
		kv := &mvccpb.KeyValue{Key: fmt.Appendf(nil, "/registry/pods/a/%d", i), Value: make([]byte, 1000), Version: 1}
		s, c := ta.count(kv)
		s.measure(c, 0, kv)
		ta.count(&mvccpb.KeyValue{Key: fmt.Appendf(nil, "/registry/widgets.example.com/widgets/b/%d", i), Version: 1})
	}
	var u Usage
	ta.fill(&u)
	sum := int64(0)
	for _, s := range u.Spaces {
		sum += s.Bytes
	}
	if len(u.Spaces) != 2 || math.Abs(float64(sum)-u.Live.Bytes) > 2 {
		t.Errorf("namespaces have %d bytes of %.0f: %+v", sum, u.Live.Bytes, u.Spaces)
	}
}

// TestReservoir checks that every key of a long list has the same chance.
func TestReservoir(t *testing.T) {
	ta := newTally(keys.Default(), 1, 5)
	const n = 10 * maxReservoir
	for i := range n {
		kv := &mvccpb.KeyValue{Key: fmt.Appendf(nil, "/registry/pods/a/%d", i), Version: 1}
		s, _ := ta.count(kv)
		ta.choose(s, fmt.Sprint(i), 0)
	}
	var tenths [10]int
	s := ta.sorted()[0]
	for _, c := range s.chosen {
		var i int
		if _, err := fmt.Sscan(c.key, &i); err != nil {
			t.Fatal(err)
		}
		tenths[i/maxReservoir]++
	}
	for i, got := range tenths { // 819.2 expected, standard deviation 27
		if math.Abs(float64(got)-maxReservoir/10) > 110 {
			t.Errorf("tenth %d has %d of %d choices", i, got, maxReservoir)
		}
	}
}

func TestAllocate(t *testing.T) {
	group := func(keys int64, values ...float64) *stratum {
		s := &stratum{keys: keys, listed: keys, chosen: make([]choice, min(keys, maxReservoir))}
		for _, v := range values {
			s.record.add(v)
		}
		return s
	}
	same, wide := group(1000, 500, 500, 500, 500), group(1000, 100, 900, 200, 800)
	want := allocate([]*stratum{same, wide}, 0.01, 1e9)
	if want == nil || want[0] != 4 || want[1] < 500 {
		t.Errorf("groups of equal and of different values: %v", want)
	}
	if got := allocate([]*stratum{same}, 0.01, 1e9); got != nil {
		t.Errorf("nothing to gain, and yet %v", got)
	}
	scaled := allocate([]*stratum{same, wide}, 0.01, 50_000) // pays for 100 values of 500
	if scaled[1] < 80 || scaled[1] > 104 {
		t.Errorf("with room for 100 values: %v", scaled)
	}
}

func TestGroupPrefix(t *testing.T) {
	for key, want := range map[string]string{
		"/registry/pods/a/b": "/registry/pods/", "/registry/x.io/ws/a/b": "/registry/x.io/ws/", "compact_rev_key": "",
		"/calico/ipam/v2/h": "/calico/ipam/", "a/b/c/d": "a/b/", "a/b": "a/", "/a": "/", "": "", "//x/y": "//x/", "a\xff/b/c": "a\xff/b/",
	} {
		if got := groupPrefix(keys.Default(), key, 2); got != want {
			t.Errorf("group of %q: %q, want %q", key, got, want)
		}
	}
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "\xff\xff": allEnd, "": allEnd, "/registry/": "/registry0"} {
		if got := prefixEnd(prefix); got != want {
			t.Errorf("end of %q: %q, want %q", prefix, got, want)
		}
	}
}

// TestInPages compares the model with bbolt's own splitting, as a file has it
// after a defragmentation; the integration tests of kvd quota do so on servers.
func TestInPages(t *testing.T) {
	for record, want := range map[int64]float64{ // bytes of pages for each record
		8273: 5 * 4096 / 2, // two records of 8 KiB on five pages
		2000: 2048,         // two do not fit into 90 % of a page, yet share one
		100:  112.5,        // 36 to a page
	} {
		if got := inPages(record-leafElement) / branchShare; math.Abs(got-want) > 0.03*want {
			t.Errorf("a record of %d takes %.1f bytes of pages, want %.1f", record, got, want)
		}
	}
}
