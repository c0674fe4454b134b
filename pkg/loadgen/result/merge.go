package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"kvd/pkg/ops/fault"
)

// Merge adds up what several generators measured at the same time on the same
// cluster. Rows are put side by side by their time since each run began, so the
// generators are to begin together. What the members said is taken from the first
// run that has it, since all asked the same ones.
func Merge(runs []*Run) (*Run, error) {
	if len(runs) == 0 {
		return nil, &fault.Error{Kind: fault.Usage, Cause: "no_result", Op: "merge results", Msg: "there is none"}
	}
	if len(runs) == 1 {
		return runs[0], nil
	}
	out := &Run{Header: runs[0].Header}
	var hashes []string
	out.Actors, out.Connections = 0, 0
	for i, r := range runs {
		if r.Scenario != out.Scenario || r.Cluster != out.Cluster {
			return nil, &fault.Error{Kind: fault.Usage, Cause: "different_runs", Op: "merge results",
				Msg:  fmt.Sprintf("%s on cluster %s and %s on cluster %s are no parts of one load", out.Scenario, out.Cluster, r.Scenario, r.Cluster),
				Hint: "to set two runs against each other: kvd loadgen compare A B"}
		}
		if !r.together(runs[0]) {
			return nil, &fault.Error{Kind: fault.Usage, Cause: "different_times", Op: "merge results",
				Msg:  "the runs are not of the same time, so they are no parts of one load",
				Hint: "to set two variants against each other: kvd loadgen compare"}
		}
		for _, other := range runs[:i] {
			if other.Schedule == r.Schedule && other.StartedAt.Equal(r.StartedAt) || r.Options.Shard != "" && other.Options.Shard == r.Options.Shard {
				return nil, &fault.Error{Kind: fault.Usage, Cause: "same_run", Op: "merge results", Msg: "the same run, or the same part of a load, is there twice: it would count double"}
			}
		}
		hashes = append(hashes, r.Schedule)
		out.Actors += r.Actors
		out.Connections += r.Connections
		out.Events = append(out.Events, r.Events...)
		out.Totals.add(&r.Totals)
	}
	out.Schedule = strings.Join(hashes, "+")
	out.Rows = mergeRows(runs)
	slices.SortStableFunc(out.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return out, nil
}

// MissingParts says which parts of a load are not there: "3/3", of runs that were
// 1/3 and 2/3. What is missing makes all amounts too small.
func MissingParts(runs []*Run) []string {
	there := map[string]bool{}
	of := 0
	for _, r := range runs {
		var k, n int
		if _, err := fmt.Sscanf(r.Options.Shard, "%d/%d", &k, &n); err != nil {
			continue
		}
		there[r.Options.Shard], of = true, max(of, n)
	}
	var missing []string
	for k := 1; k <= of; k++ {
		if part := fmt.Sprintf("%d/%d", k, of); !there[part] {
			missing = append(missing, part)
		}
	}
	return missing
}

// together reports that two runs were under way at the same time.
func (r *Run) together(o *Run) bool {
	end := func(x *Run) time.Time {
		return x.StartedAt.Add(time.Duration((x.Warmup + x.Totals.Measured) * float64(time.Second)))
	}
	return r.StartedAt.Before(end(o)) && o.StartedAt.Before(end(r))
}

// mergeRows adds up the rows of the same second.
func mergeRows(runs []*Run) []Row {
	at := map[int]*Row{}
	var order []int
	for _, r := range runs {
		for _, row := range r.Rows {
			second := int(math.Round(row.At))
			sum, ok := at[second]
			if !ok {
				first := row
				first.Ops = addOps(nil, row.Ops)
				at[second], order = &first, append(order, second)
				continue
			}
			sum.Due += row.Due
			sum.Sent += row.Sent
			sum.Dropped += row.Dropped
			sum.Waiting += row.Waiting
			sum.CPU, sum.Memory, sum.Lag, sum.Span = max(sum.CPU, row.CPU), max(sum.Memory, row.Memory), max(sum.Lag, row.Lag), max(sum.Span, row.Span)
			sum.Ops = addOps(sum.Ops, row.Ops)
			if len(sum.Members) == 0 {
				sum.Members = row.Members
			}
		}
	}
	slices.Sort(order)
	out := make([]Row, 0, len(order))
	for _, second := range order {
		out = append(out, *at[second])
	}
	return out
}

// add adds another generator's totals.
func (t *Totals) add(o *Totals) {
	t.Measured = max(t.Measured, o.Measured)
	t.Due += o.Due
	t.Sent += o.Sent
	t.Dropped += o.Dropped
	t.Ops = addOps(t.Ops, o.Ops)
	if t.Counters == nil {
		t.Counters = map[string]float64{}
	}
	for name, n := range o.Counters {
		t.Counters[name] += n
	}
	for _, c := range o.Causes {
		i := slices.IndexFunc(t.Causes, func(have Cause) bool { return have.Cause == c.Cause })
		if i < 0 {
			t.Causes = append(t.Causes, c)
			continue
		}
		t.Causes[i].Count += c.Count
	}
	t.Lag.Add(o.Lag)
	t.CPU, t.Memory = max(t.CPU, o.CPU), max(t.Memory, o.Memory)
	if len(t.Servers) == 0 {
		t.Servers = o.Servers
	}
	t.Limits = append(t.Limits, o.Limits...)
	t.Stopped = cmp.Or(t.Stopped, o.Stopped)
	t.Deserted = cmp.Or(t.Deserted, o.Deserted)
}
