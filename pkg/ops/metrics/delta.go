package metrics

import "time"

// Delta is what happened between two samples of one member.
type Delta struct {
	From, To *Sample
}

// Between returns the delta of two samples of the same member.
func Between(from, to *Sample) Delta { return Delta{From: from, To: to} }

// Elapsed returns the time between the samples.
func (d Delta) Elapsed() time.Duration { return d.To.At.Sub(d.From.At) }

// Counter returns by how much a counter grew. It is false if the later sample
// does not have it or the server restarted in between; a counter that the
// earlier sample does not have began at 0.
func (d Delta) Counter(name string, labels Labels) (float64, bool) {
	now, ok := d.To.Value(name, labels)
	before, _ := d.From.Value(name, labels)
	if !ok || d.To.Restarted(d.From) || now < before {
		return 0, false
	}
	return now - before, true
}

// Rate returns a counter's growth per second.
func (d Delta) Rate(name string, labels Labels) (float64, bool) {
	n, ok := d.Counter(name, labels)
	secs := d.Elapsed().Seconds()
	if !ok || secs <= 0 {
		return 0, false
	}
	return n / secs, true
}

// Histogram returns the observations between the samples, by the same rule as
// Counter.
func (d Delta) Histogram(name string, labels Labels) (Histogram, bool) {
	now, ok := d.To.Histogram(name, labels)
	before, _ := d.From.Histogram(name, labels)
	if !ok || d.To.Restarted(d.From) {
		return Histogram{}, false
	}
	return now.Since(before)
}
