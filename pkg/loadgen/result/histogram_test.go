package result

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A folded histogram is the same histogram, and far smaller.
func TestFold(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 1))
	for _, n := range []int{0, 1, 2, 300, 20000} {
		plain := Coarse()
		for i := range n {
			d := time.Duration(2e6 * math.Exp(2*rnd.NormFloat64()))
			if i%97 == 0 {
				d = []time.Duration{0, time.Microsecond, MaxLatency, 5 * MaxLatency}[i/97%4]
			}
			plain.Record(d)
		}
		folded := plain.Clone()
		folded.Fold()
		if n > 0 && folded.packed != nil {
			t.Fatalf("of %d: not folded", n)
		}
		same := func(what string) {
			t.Helper()
			for q := 0.0; q <= 1; q += 0.01 {
				if a, b := plain.Quantile(q), folded.Quantile(q); a != b {
					t.Fatalf("%s, of %d: quantile %.2f is %s, folded %s", what, n, q, a, b)
				}
			}
			a, err := json.Marshal(plain)
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(folded)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a, b) || plain.Count() != folded.Count() || plain.Mean() != folded.Mean() || plain.AtLeast(time.Second) != folded.AtLeast(time.Second) {
				t.Errorf("%s, of %d: %s, folded %s", what, n, a, b)
			}
		}
		same("folded")
		if size := 6 * plain.packed.Populated(); n == 20000 && 3*len(folded.folded) > int(size) {
			t.Errorf("%d bytes for what took %d", len(folded.folded), size)
		}
		shared := folded.Clone()
		for _, h := range []*Histogram{&plain, &folded} {
			h.Record(time.Minute)
			h.Add(shared)
		}
		same("added to")
		if int64(n) != shared.Count() {
			t.Errorf("of %d: a copy has %d", n, shared.Count())
		}
	}
	fine := hist(time.Millisecond)
	if fine.Fold(); fine.packed == nil {
		t.Error("a fine one was folded, which loses")
	}
}
