package metrics

import (
	"maps"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

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

// Moved lists the counters, and histograms by what they have counted, that are higher
// than in another sample, and those that are lower: series as in "name{label="value"}",
// sorted. What only one of them has is in neither list.
func (s *Sample) Moved(other *Sample) (grew, fell []string) {
	was := other.counts()
	for series, now := range s.counts() {
		before, ok := was[series]
		switch {
		case !ok || now == before:
		case now > before:
			grew = append(grew, series)
		default:
			fell = append(fell, series)
		}
	}
	slices.Sort(grew)
	slices.Sort(fell)
	return grew, fell
}

// counts are the values of all counters, and the numbers of observations.
func (s *Sample) counts() map[string]float64 {
	out := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(s.families)) {
		for _, m := range s.families[name].GetMetric() {
			switch {
			case m.Counter != nil:
				out[series(name, m)] = m.GetCounter().GetValue()
			case m.Histogram != nil:
				out[series(name+"_count", m)] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}

func series(name string, m *dto.Metric) string {
	var labels []string
	for _, p := range m.GetLabel() {
		labels = append(labels, p.GetName()+`="`+p.GetValue()+`"`)
	}
	if len(labels) == 0 {
		return name
	}
	slices.Sort(labels)
	return name + "{" + strings.Join(labels, ",") + "}"
}
