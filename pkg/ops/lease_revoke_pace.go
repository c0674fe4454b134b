package ops

import "time"

// slowestPace is by how much the gaps between two revocations grow at most.
const slowestPace = 8

// leasePace chooses how far apart revocations begin. One is in flight at a time, so
// that a write of somebody else's waits behind one at most; a revocation is itself as
// small a write as there is, so that what it takes is what others feel. Where the
// latest take more than twice as long as a small write took before, the gaps grow.
type leasePace struct {
	before latency
	rate   int
	slow   int
	took   []time.Duration
}

func newLeasePace(rate int, before latency) *leasePace {
	return &leasePace{before: before, rate: rate, slow: 1}
}

// answered takes how long a revocation took.
func (p *leasePace) answered(took time.Duration) {
	p.took = append(p.took, took)
	if len(p.took)%recent != 0 {
		return
	}
	if quantiles(p.took[len(p.took)-recent:]).p50 > slowdown*p.before.p50 {
		p.slow = min(2*p.slow, slowestPace)
	} else {
		p.slow = max(p.slow/2, 1)
	}
}

// gap is how long after the beginning of one the next may begin.
func (p *leasePace) gap() time.Duration {
	return time.Duration(p.slow) * time.Second / time.Duration(p.rate)
}

func (p *leasePace) text() string {
	s := "a small write took " + p.before.String() + " before"
	if len(p.took) > 0 {
		s += ", " + quantiles(p.took).String() + " meanwhile"
	}
	return s
}
