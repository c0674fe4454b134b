package result

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// confidence is how often an interval is to contain the true ratio.
const confidence = 0.95

// Ratio is how many times as much B is as A, with an interval that contains the
// true ratio of the two in 95 of 100 comparisons.
type Ratio struct {
	Value float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Differs reports that the interval leaves out 1: A and B are not the same.
func (r Ratio) Differs() bool { return r.Low > 1 || r.High < 1 }

// ratioOf compares two sets of measurements of one figure, all of them above 0. It
// is Welch's interval for the difference of two means (B. L. Welch, Biometrika 34,
// 1947), taken on logarithms, whose means are those of the geometric means: so the
// interval is one for their ratio, and A/B is the reciprocal of B/A. False where
// there are less than two on a side, or one is not above 0.
func ratioOf(a, b []float64) (Ratio, bool) {
	la, okA := logs(a)
	lb, okB := logs(b)
	if !okA || !okB {
		return Ratio{}, false
	}
	meanA, varA := stat.MeanVariance(la, nil)
	meanB, varB := stat.MeanVariance(lb, nil)
	va, vb := varA/float64(len(la)), varB/float64(len(lb))
	d, se := meanB-meanA, math.Sqrt(va+vb)
	if se == 0 {
		return Ratio{Value: math.Exp(d), Low: math.Exp(d), High: math.Exp(d)}, true
	}
	df := (va + vb) * (va + vb) / (va*va/float64(len(la)-1) + vb*vb/float64(len(lb)-1))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(1 - (1-confidence)/2)
	return Ratio{Value: math.Exp(d), Low: math.Exp(d - t*se), High: math.Exp(d + t*se)}, true
}

func logs(x []float64) ([]float64, bool) {
	out := make([]float64, len(x))
	for i, v := range x {
		if v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, false
		}
		out[i] = math.Log(v)
	}
	return out, len(x) >= 2
}
