package ops

import (
	"fmt"
	"slices"
	"time"
)

// The size of a batch. A transaction may have --max-txn-ops operations (128 unless
// set), and comparisons as many; it is applied in one go, and everything else that
// is written waits for that.
const (
	firstBatch    = 16
	smallestBatch = 4
	maxTxnOps     = 128
)

// maxBatchBytes is how long the keys of a batch may be together. Each is in the
// request three times, and the server takes 1.5 MiB unless told otherwise.
const maxBatchBytes = 256 << 10

// slowdown is how much longer than before an answer may take while keys are deleted.
const slowdown = 2

// What lies between two batches, in times of what the last one took; and how many
// batches lie between two small writes that are timed, of which the last recent count.
const (
	leastRest  = 3
	mostRest   = 100
	longest    = 2 * time.Second // of a pause, whatever a batch took
	probeEvery = 8
	recent     = 15
)

// pacer chooses how many keys go into the next transaction, and how long to wait
// before it.
//
// A write that arrives while a batch is applied waits for as long as that takes,
// in which an answer to the batch differs from an answer to a small write. So the
// batches are kept so small that theirs take no longer than twice a small one's
// took before; and behind each is a pause three times as long, so that most of the
// time nobody waits at all. What others feel of it is measured by small writes in
// between: where these take more than twice as long as before, pauses grow.
type pacer struct {
	before latency
	size   int
	most   int // what the server takes
	rest   int

	small []time.Duration // what small writes took meanwhile
}

func newPacer(before latency) *pacer {
	return &pacer{before: before, size: firstBatch, most: maxTxnOps, rest: leastRest}
}

// answered takes how long a batch took, and returns how long to wait now.
func (p *pacer) answered(took time.Duration) time.Duration {
	if took > slowdown*p.before.p50 {
		p.size = max(p.size/2, min(smallestBatch, p.most))
	} else {
		p.size = min(p.size+firstBatch/4, p.most)
	}
	return min(time.Duration(p.rest)*took, longest)
}

// probed takes how long a small write took.
func (p *pacer) probed(took time.Duration) {
	p.small = append(p.small, took)
	if len(p.small)%recent != 0 {
		return
	}
	if quantiles(p.small[len(p.small)-recent:]).p50 > slowdown*p.before.p50 {
		p.rest = min(2*p.rest, mostRest)
	} else {
		p.rest = max(p.rest/2, leastRest)
	}
}

// refused takes that the server would not take a batch of n for its size. It is
// false where one key alone is too much.
func (p *pacer) refused(n int) bool {
	p.most = n / 2
	p.size = min(p.size, p.most)
	return p.most > 0
}

// latency is how long answers took.
type latency struct{ p50, p99 time.Duration }

// String writes both.
func (l latency) String() string {
	return fmt.Sprintf("%s (p50, p99 %s)", l.p50.Round(10*time.Microsecond), l.p99.Round(10*time.Microsecond))
}

// quantiles sums up how long answers took; of few the p99 is the slowest.
func quantiles(took []time.Duration) latency {
	if len(took) == 0 {
		return latency{}
	}
	took = slices.Sorted(slices.Values(took))
	at := func(q float64) time.Duration { return took[min(int(q*float64(len(took))), len(took)-1)] }
	return latency{at(0.5), at(0.99)}
}

// fit returns how many of the keys go into the next batch.
func (p *pacer) fit(page []doomed) int {
	n, bytes := 0, 0
	for n < min(p.size, len(page)) {
		if bytes += len(page[n].key); n > 0 && bytes > maxBatchBytes {
			break
		}
		n++
	}
	return n
}
