package result

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Each line of each chart is drawn with all its points, and its maximum is the
// report's; a run of hours fits into a page, and no peak is lost.
func TestPageHasWhatTheReportHas(t *testing.T) {
	r := sample(MaxRows, 3, time.Millisecond)
	r.Rows[1234].Ops[0].Response.Record(7 * time.Second)
	r.Rows[1500].CPU, r.Rows[1600].Lag = 0.5, 0.25
	r.Events = []Event{{At: 100, What: "leader_change", Text: "m2 </script> leads now"}}
	r.Totals.Counters["watch_bytes"], r.Totals.Deserted = 123456789, "no member led; silent: m1"
	rep := NewReport(r, nil, true)
	var b bytes.Buffer
	if err := WritePage(&b, rep); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if b.Len() > 2<<20 {
		t.Errorf("the page has %d bytes", b.Len())
	}
	if !strings.Contains(page, "watch_bytes 123456789") || !strings.Contains(page, "silent: m1") {
		t.Error("a counter is not written out, or nothing says that the cluster was gone")
	}
	if !strings.Contains(page, "The generator: 12.5 % of its processors") || !strings.Contains(page, "20 MiB of memory") {
		t.Error("nothing says what the generator itself needed")
	}
	lines := regexp.MustCompile(`<polyline data-line="([^"]+)" data-points="(\d+)" data-max="([^"]+)" stroke="[^"]+" points="([^"]*)"`).FindAllStringSubmatch(page, -1)
	n := 0
	for _, c := range rep.Charts {
		for _, l := range c.Lines {
			if n >= len(lines) {
				t.Fatalf("only %d lines are drawn", len(lines))
			}
			m := lines[n]
			n++
			highest, _ := strconv.ParseFloat(m[3], 64)
			if points := len(strings.Fields(m[4])); m[2] != fmt.Sprint(len(l.Points)) || points != len(l.Points) || highest != l.Max || len(l.Points) > maxPoints {
				t.Errorf("%s, %s: %s points said, %d drawn, %d in the report; maximum %v, %v in the report", c.Title, l.Name, m[2], points, len(l.Points), highest, l.Max)
			}
		}
	}
	if n != len(lines) || n < 10 {
		t.Errorf("%d lines in the report, %d drawn", n, len(lines))
	}
	if max := rep.Charts[0].Lines[2].Max; max < 7 {
		t.Errorf("the peak of 7 s is shown as %v s", max)
	}
	for title, want := range map[string]float64{"generator: share of its processors": 0.5, "generator: turns begun after they were due, 99 of 100": 0.25, "generator: memory": 20 << 20} {
		i := slices.IndexFunc(rep.Charts, func(c Chart) bool { return c.Title == title })
		if i < 0 || len(rep.Charts[i].Lines) != 1 || rep.Charts[i].Lines[0].Max != want || !strings.Contains(page, "<h3>"+title+"</h3>") {
			t.Errorf("the chart %q is not there, or its highest is not %v", title, want)
		}
	}
	if strings.Count(page, "</script>") != 1 || strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("a text ends the page's data, or the page wants something from a network")
	}
	var two bytes.Buffer
	c, err := Compare([]*Run{r}, []*Run{r})
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteComparisonPage(&two, c, rep, rep); err != nil || strings.Count(two.String(), "<polyline") != 2*n {
		t.Errorf("%v, %d lines", err, strings.Count(two.String(), "<polyline"))
	}
}
