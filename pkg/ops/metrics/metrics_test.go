package metrics_test

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
)

func parse(t *testing.T, text string) *metrics.Sample {
	t.Helper()
	s, err := metrics.Parse(strings.NewReader(text), time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func recorded(t *testing.T) *metrics.Sample {
	t.Helper()
	b, err := os.ReadFile("testdata/etcd-3.7.3.txt")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(b))
}

func TestRecordedEtcd(t *testing.T) {
	s := recorded(t)
	for name, want := range map[string]float64{
		metrics.DefragInflight: 0, metrics.DBSize: 20480, metrics.DBInUse: 12288,
		metrics.IsLeader: 1, metrics.QuotaBytes: 2 << 30, metrics.ProposalsPending: 0,
	} {
		if got, ok := s.Value(name, nil); !ok || got != want {
			t.Errorf("%s = %v, %v: want %v", name, got, ok, want)
		}
	}
	if got, _ := s.Value(metrics.ResidentMemory, nil); got < 1<<20 {
		t.Errorf("resident memory %v", got)
	}
	if _, ok := s.Value("etcd_no_such_metric", nil); ok || s.Has("etcd_no_such_metric") {
		t.Error("a metric that is not there has a value")
	}
	if _, ok := s.Value(metrics.DefragDuration, nil); ok {
		t.Error("a histogram has a scalar value")
	}
	h, ok := s.Histogram(metrics.DefragDuration, nil)
	if !ok || h.Count != 1 || h.Sum != 0.005213117 {
		t.Errorf("defrag histogram %+v, %v", h, ok)
	}
	puts, ok := s.Value("grpc_server_handled_total", metrics.Labels{"grpc_method": "Put", "grpc_code": "OK"})
	if !ok || puts != 5 {
		t.Errorf("puts %v, %v: want 5", puts, ok)
	}
	if by := s.ByLabel("grpc_server_handled_total", "grpc_method"); by["Put"] != 5 || by["Defragment"] != 1 {
		t.Errorf("by method: %v", by)
	}
}

const hist = `# TYPE h histogram
h_bucket{le="1"} 10
h_bucket{le="2"} 20
h_bucket{le="4"} 40
h_bucket{le="+Inf"} 50
h_sum 120
h_count 50
`

func TestQuantile(t *testing.T) {
	h, ok := parse(t, hist).Histogram("h", nil)
	if !ok {
		t.Fatal("no histogram")
	}
	for q, want := range map[float64]float64{0: 0, 0.1: 0.5, 0.2: 1, 0.3: 1.5, 0.4: 2, 0.5: 2.5, 0.8: 4, 0.9: 4, 1: 4} {
		if got := h.Quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
	if h.Mean() != 2.4 {
		t.Errorf("mean %v", h.Mean())
	}
	for _, q := range []float64{-0.1, 1.1, math.NaN()} {
		if got := h.Quantile(q); !math.IsNaN(got) {
			t.Errorf("quantile %v = %v", q, got)
		}
	}
	if got := (metrics.Histogram{}).Quantile(0.5); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
}

func TestDelta(t *testing.T) {
	text := func(start, c, b1, b2, n string) string {
		return "# TYPE c counter\nc " + c + "\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds " + start +
			"\n# TYPE h histogram\nh_bucket{le=\"1\"} " + b1 + "\nh_bucket{le=\"2\"} " + b2 + "\nh_bucket{le=\"+Inf\"} " + n + "\nh_sum " + n + "\nh_count " + n + "\n"
	}
	from := parse(t, text("7", "10", "1", "2", "2"))
	to := parse(t, text("7", "25", "1", "12", "12"))
	to.At = from.At.Add(5 * time.Second)
	d := metrics.Between(from, to)
	if got, ok := d.Counter("c", nil); !ok || got != 15 {
		t.Errorf("counter %v %v", got, ok)
	}
	if got, ok := d.Rate("c", nil); !ok || got != 3 {
		t.Errorf("rate %v %v", got, ok)
	}
	if h, ok := d.Histogram("h", nil); !ok || h.Count != 10 || h.Quantile(0.5) != 1.5 {
		t.Errorf("histogram %+v %v", h, ok)
	}
	restarted := parse(t, text("8", "40", "9", "40", "40"))
	restarted.At = to.At
	d = metrics.Between(from, restarted)
	if _, ok := d.Counter("c", nil); ok {
		t.Error("a counter across a restart has a delta")
	}
	if _, ok := d.Histogram("h", nil); ok {
		t.Error("a histogram across a restart has a delta")
	}
}

func TestGarbageIsAnError(t *testing.T) {
	for _, text := range []string{"<html><body>login</body></html>", "a b c d\n", "h_bucket{le=\"", "x{} \xff\xfe\n", `{"json": true}`} {
		_, err := metrics.Parse(strings.NewReader(text), time.Now())
		if fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != "not_metrics" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	b, err := os.ReadFile("testdata/etcd-3.7.3.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b))
	f.Add(hist)
	f.Add("# TYPE h histogram\nh_bucket{le=\"NaN\"} 3\nh_bucket{le=\"-Inf\"} 9\nh_bucket{le=\"2\"} 1\nh_count 1e300\n")
	f.Add("# TYPE s summary\ns{quantile=\"0.5\"} NaN\ns_sum -1\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := metrics.Parse(strings.NewReader(text), time.Now())
		if err != nil {
			if fault.KindOf(err) != fault.Unavailable {
				t.Fatalf("kind of %v", err)
			}
			return
		}
		for _, name := range s.Names() {
			s.Value(name, nil)
			s.ByLabel(name, "le")
			h, ok := s.Histogram(name, nil)
			if !ok {
				continue
			}
			low, high := h.Quantile(0.1), h.Quantile(0.9)
			if low > high {
				t.Fatalf("%s: 10 %% quantile %v above the 90 %% quantile %v", name, low, high)
			}
			if d, ok := h.Since(h); !ok || d.Count != 0 {
				t.Fatalf("%s: difference from itself %+v %v", name, d, ok)
			}
		}
	})
}
