package result

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(a, b, by float64) bool { return math.Abs(a-b) <= by*math.Abs(b) }

// The interval is what the formulas give by hand. Logarithms 0, 1, 2 and 1, 2, 3,
// 4, 5: means 1 and 3, variances 1 and 2.5, so d = 2, s² = 1/3 + 1/2 = 5/6, and
// (5/6)² / ((1/3)²/2 + (1/2)²/4) = 25/36 / (1/18 + 1/16) = 5.882 degrees of
// freedom. The t distribution's 97.5 % quantile there is 2.4590 (tables: 2.5706
// at 5, 2.4469 at 6).
func TestIntervalIsWelchs(t *testing.T) {
	exp := func(x ...float64) (out []float64) {
		for _, v := range x {
			out = append(out, math.Exp(v))
		}
		return out
	}
	r, ok := ratioOf(exp(0, 1, 2), exp(1, 2, 3, 4, 5))
	se := math.Sqrt(5.0 / 6)
	if !ok || !near(r.Value, math.Exp(2), 1e-12) {
		t.Fatalf("%+v, %v: want a ratio of e²", r, ok)
	}
	tQuantile := (math.Log(r.High) - 2) / se
	if tQuantile < 2.4469 || tQuantile > 2.5706 || !near(math.Log(r.Low)-2, 2-math.Log(r.High), 1e-9) {
		t.Errorf("quantile %.4f, interval %+v", tQuantile, r)
	}
	// Equal sizes and variances: the degrees of freedom are 2n-2, exactly. n = 2:
	// 4.302653 for 2.
	r, _ = ratioOf(exp(0, 2), exp(1, 3))
	if got := (math.Log(r.High) - 1) / math.Sqrt2; !near(got, 4.302652729696, 1e-9) {
		t.Errorf("quantile for 2 degrees of freedom: %.9f", got)
	}
	// n = 6: 2.228139 for 10.
	r, _ = ratioOf(exp(0, 1, 2, 3, 4, 5), exp(0, 1, 2, 3, 4, 5))
	if got := math.Log(r.High) / math.Sqrt(2*3.5/6); !near(got, 2.228138851965, 1e-9) || r.Differs() || r.Value != 1 {
		t.Errorf("quantile for 10 degrees of freedom: %.9f, %+v", got, r)
	}
}

// A/B is the reciprocal of B/A, and no unit has a say.
func TestIntervalIsSymmetric(t *testing.T) {
	a, b := []float64{3, 4, 5, 4.5}, []float64{8, 9, 7}
	r, _ := ratioOf(a, b)
	back, _ := ratioOf(b, a)
	scaled := []float64{3000, 4000, 5000, 4500}
	k, _ := ratioOf(scaled, b)
	if !near(back.Low, 1/r.High, 1e-9) || !near(back.High, 1/r.Low, 1e-9) || !near(k.High, r.High/1000, 1e-9) {
		t.Errorf("%+v, %+v, %+v", r, back, k)
	}
	for name, x := range map[string][]float64{"one": {1}, "zero": {1, 0}, "infinite": {1, math.Inf(1)}, "none": nil} {
		if _, ok := ratioOf(a, x); ok {
			t.Errorf("%s: an interval from %v", name, x)
		}
	}
}

// In 95 of 100 comparisons the interval contains the ratio there really is, and
// in 5 of 100 of two equals it shows a difference that is not there.
func TestIntervalCoversTheTruth(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	const trials, ratio = 4000, 1.3
	draw := func(n int, mean, spread float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = math.Exp(math.Log(mean) + spread*rnd.NormFloat64())
		}
		return out
	}
	covered, alarms := 0, 0
	for range trials {
		if r, _ := ratioOf(draw(5, 10, 0.2), draw(5, 10*ratio, 0.1)); r.Low <= ratio && ratio <= r.High {
			covered++
		}
		if r, _ := ratioOf(draw(5, 10, 0.2), draw(5, 10, 0.2)); r.Differs() {
			alarms++
		}
	}
	// Four standard errors of a share of 0.05 in 4000 trials are 0.014; Welch's
	// interval errs a little to the safe side with so few.
	if share := float64(covered) / trials; share < 0.936 || share > 0.97 {
		t.Errorf("covered in %.3f of the trials, want 0.95", share)
	}
	if share := float64(alarms) / trials; share < 0.03 || share > 0.064 {
		t.Errorf("false alarm in %.3f of the trials, want 0.05", share)
	}
}
