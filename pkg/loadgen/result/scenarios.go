package result

import (
	"fmt"
	"slices"
	"strings"
)

// otherWork says that two sides are not of one scenario, and what follows from that;
// "" where they are.
func otherWork(a, b []*Run) string {
	of := func(runs []*Run) string {
		return listed(runs, func(r *Run) []string { return []string{r.Scenario} }, nil)
	}
	if inA, inB := of(a), of(b); inA == inB && !strings.Contains(inA, ",") {
		return ""
	}
	sent := func(r *Run) (names []string) {
		for _, row := range r.Rows {
			for _, l := range row.Ops {
				names = append(names, l.Name())
			}
		}
		return names
	}
	note := fmt.Sprintf("these are runs of different scenarios: A is %s, B is %s. ", of(a), of(b))
	for _, side := range []struct {
		name        string
		runs, other []*Run
	}{{"A", a, b}, {"B", b, a}} {
		if only := listed(side.runs, sent, side.other); only != "" {
			note += fmt.Sprintf("Only %s sends %s: there is nothing to compare that with. ", side.name, only)
		}
	}
	return note + `Requests of one name were sent beside other requests, and figures of "all" requests, of what was written and of the members are of other work: ` +
		"no ratio says what a change of etcd, of its settings or of a flag does"
}

// listed lists what runs have, each name once, without what the others have too.
func listed(runs []*Run, names func(*Run) []string, but []*Run) string {
	var out []string
	for _, r := range runs {
		out = append(out, names(r)...)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	for _, r := range but {
		have := names(r)
		out = slices.DeleteFunc(out, func(name string) bool { return slices.Contains(have, name) })
	}
	return strings.Join(out, ", ")
}
