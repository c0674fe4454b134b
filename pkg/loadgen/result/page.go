package result

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

//go:embed page.html
var pageSource string

// page is what the template is given.
type page struct {
	Title      string
	Comparison *Comparison
	Runs       []pageRun
	Data       template.JS // the reports, for whoever opens the page with a program
}

// pageRun is one run's column.
type pageRun struct {
	Label    string
	Report   Report
	Pictures []picture
}

// picture is a chart with its scales, ready to be drawn.
type picture struct {
	Chart
	Curves         []curve
	Marks          []mark
	XTicks, YTicks []tick
}

type curve struct {
	Name   string
	Path   string // of an SVG polyline
	Color  string
	Points int
	Max    string
}

// mark is an event, as a vertical line.
type mark struct {
	X    float64
	Text string
	Kind string
}

type tick struct {
	At   float64
	Text string
}

// The picture's size in its own units, and the room for the numbers at its sides.
const (
	picWidth, picHeight = 720.0, 220.0
	picLeft, picBottom  = 64.0, 22.0
	picTop, picRight    = 8.0, 8.0
)

// WritePage writes a page about one run that needs nothing else: no network, no
// scripts. The report is made with its charts.
func WritePage(w io.Writer, r Report) error {
	return writePage(w, page{Title: "kvd loadgen " + r.Scenario, Runs: []pageRun{newPageRun("", r, scaleOf(r))}}, []Report{r})
}

// WriteComparisonPage writes one about two, side by side and to the same scale.
func WriteComparisonPage(w io.Writer, c Comparison, a, b Report) error {
	s := scaleOf(a, b)
	return writePage(w, page{Title: "kvd loadgen compare", Comparison: &c, Runs: []pageRun{newPageRun("A: "+c.A, a, s), newPageRun("B: "+c.B, b, s)}}, []Report{a, b})
}

// scales are how far the axes of a page's pictures go.
type scales struct {
	end   float64            // seconds, of all pictures over time
	tops  map[string]float64 // by title
	nines map[string]float64
}

func scaleOf(reports ...Report) scales {
	s := scales{tops: map[string]float64{}, nines: map[string]float64{}}
	for _, r := range reports {
		for _, c := range r.Charts {
			right := rightmost(c)
			if c.X == "seconds" {
				s.end = max(s.end, right)
			} else {
				s.nines[c.Title] = max(s.nines[c.Title], right)
			}
			for _, l := range c.Lines {
				s.tops[c.Title] = max(s.tops[c.Title], l.Max)
			}
		}
	}
	return s
}

func writePage(w io.Writer, p page, reports []Report) error {
	data, err := json.Marshal(reports) // which escapes < and >, so that no text ends the script element
	if err != nil {
		return err
	}
	p.Data = template.JS(data) //nolint:gosec // as said
	t, err := template.New("page").Funcs(template.FuncMap{"show": ShowValue, "rate": func(v float64) string { return fmt.Sprintf("%.1f", v) },
		"seconds": func(v float64) string { return ShowValue(v, UnitSeconds) }, "size": func(v int64) string { return ShowValue(float64(v), UnitSize) },
		"ratio": func(r *Ratio) string { return fmt.Sprintf("%.3g (%.3g to %.3g)", r.Value, r.Low, r.High) }}).Parse(pageSource)
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}

func newPageRun(label string, r Report, s scales) pageRun {
	out := pageRun{Label: label, Report: r}
	for _, c := range r.Charts {
		right := s.end
		if c.X != "seconds" {
			right = s.nines[c.Title]
		}
		out.Pictures = append(out.Pictures, draw(c, r.Events, s.tops[c.Title], right))
	}
	return out
}

// draw scales a chart into a picture. All pictures of time have the same x axis,
// so that a peak in one lies over its cause in another.
func draw(c Chart, events []Event, top, right float64) picture {
	p := picture{Chart: c}
	scale := 1.0
	if c.Unit == UnitSize && top >= 1024 { // round in KiB, MiB or GiB
		scale = math.Pow(1024, math.Floor(math.Log2(top)/10))
	}
	step := scale * niceStep(top/scale)
	top = max(step*math.Ceil(top/step), step)
	right = max(right, 1)
	x := func(v float64) float64 { return picLeft + v/right*(picWidth-picLeft-picRight) }
	y := func(v float64) float64 { return picTop + (1-v/top)*(picHeight-picTop-picBottom) }
	for i := range maxTicks {
		if v := step * float64(i); v <= top*1.0001 {
			p.YTicks = append(p.YTicks, tick{y(v), ShowValue(v, c.Unit)})
		}
	}
	p.XTicks = xTicks(c, right, x)
	for i, l := range c.Lines {
		var path strings.Builder
		for _, pt := range l.Points {
			path.WriteString(coordinate(x(pt[0])) + "," + coordinate(y(pt[1])) + " ")
		}
		p.Curves = append(p.Curves, curve{Name: l.Name, Path: path.String(), Color: color(i), Points: len(l.Points), Max: strconv.FormatFloat(l.Max, 'f', -1, 64)})
	}
	if c.X == "seconds" {
		for _, e := range events {
			p.Marks = append(p.Marks, mark{x(min(e.At, right)), strings.TrimSpace(strings.ReplaceAll(e.What, "_", " ") + " " + e.Text), e.What})
		}
	}
	return p
}

func rightmost(c Chart) float64 {
	most := 0.0
	for _, l := range c.Lines {
		for _, p := range l.Points {
			most = max(most, p[0])
		}
	}
	return most
}

func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// xTicks are some round seconds, or percentiles with one, two, three nines.
func xTicks(c Chart, right float64, x func(float64) float64) (out []tick) {
	if c.X != "seconds" {
		for nines, text := range []string{"0 %", "90 %", "99 %", "99.9 %", "99.99 %"} {
			if float64(nines) <= right {
				out = append(out, tick{x(float64(nines)), text})
			}
		}
		return out
	}
	step := niceStep(right)
	for i := range maxTicks {
		if v := step * float64(i); v <= right {
			out = append(out, tick{x(v), (time.Duration(v * float64(time.Second))).String()})
		}
	}
	return out
}

// maxTicks is more than a scale has, whatever stands in the file it is made of.
const maxTicks = 12

// niceStep is a round number that goes four to ten times into a maximum.
func niceStep(most float64) float64 {
	if most < 1e-9 || math.IsInf(most, 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{0.1, 0.2, 0.25} {
		if most/(unit*f) <= 8 {
			return unit * f
		}
	}
	if most/unit > 4 {
		return unit
	}
	return unit / 2
}

// color is one of those that people who see red and green alike can tell apart
// (Okabe and Ito, 2008), without the yellow, which is pale on white.
func color(i int) string {
	all := []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"}
	return all[i%len(all)]
}

// ShowValue shows a figure in its unit, in three digits or so.
func ShowValue(v float64, unit string) string {
	switch unit {
	case UnitSeconds:
		d := time.Duration(v * float64(time.Second))
		switch {
		case d >= time.Second:
			return d.Round(10 * time.Millisecond).String()
		case d >= 10*time.Millisecond:
			return d.Round(100 * time.Microsecond).String()
		}
		return d.Round(10 * time.Microsecond).String()
	case UnitShare:
		return fmt.Sprintf("%.3g %%", 100*v)
	case UnitBytes, UnitSize:
		for _, u := range []string{"B", "KiB", "MiB", "GiB"} {
			if v < 1024 || u == "GiB" {
				if unit == UnitBytes {
					u += "/s"
				}
				return fmt.Sprintf("%.3g %s", v, u)
			}
			v /= 1024
		}
	}
	return fmt.Sprintf("%.4g", v)
}
