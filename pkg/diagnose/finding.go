package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Severity ranks findings.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // writes are refused, data is at risk, or a member does not start
	Warning  Severity = "warning"  // it will be, or one failure more makes it so
	Info     Severity = "info"     // worth knowing, nothing to get up for
)

// rank orders severities, the worst first.
func (s Severity) rank() int { return slices.Index([]Severity{Critical, Warning, Info}, s) }

// AtLeast reports that s is as bad as other, or worse.
func (s Severity) AtLeast(other Severity) bool { return s.rank() <= other.rank() }

// Finding is one thing that is wrong, or worth knowing.
type Finding struct {
	ID       string   `json:"id"` // stable: KVD-AREA-NNN, see Catalogue
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"` // a member, a key, a file; "cluster"
	Summary  string   `json:"summary"` // one sentence

	Evidence []Evidence `json:"evidence"`
	Why      string     `json:"why"` // why it matters; the catalogue's, but where a check knows better
	// Remedy is what to do next, in order, as lines for a shell: a command, two spaces
	// and "# " before what it is for; or words alone.
	Remedy []string `json:"-"`
	// Next is Remedy taken apart; Diagnose fills it in.
	Next []Step `json:"remedy"`
	Page string `json:"page"`
	// ExplainedBy are IDs of other findings of the same report that this one
	// follows from: remedy those first.
	ExplainedBy []string `json:"explained_by,omitempty"`
	elsewhere   bool     // another check tells it: here it says only that not all is good
}

// Evidence is one number, or a word, that a finding rests on.
type Evidence struct {
	What   string    `json:"what"`
	Value  float64   `json:"value"`
	Unit   Unit      `json:"unit"`           // of Value; empty where Text says it
	Text   string    `json:"text,omitempty"` // what is not a number
	Source string    `json:"source"`         // who said so: "status of m1"
	At     time.Time `json:"at,omitzero"`
}

// Unit is what a number counts.
type Unit string

// The units.
const (
	Bytes   Unit = "bytes"
	Ratio   Unit = "ratio"
	Seconds Unit = "seconds"
	Count   Unit = "count"
	Rate    Unit = "per_second"
	Times   Unit = "times" // so many times another number
	Index   Unit = "index" // a raft index or a revision: a number without separators
)

// Shown is the value for people.
func (e Evidence) Shown() string {
	if e.Text != "" {
		return e.Text
	}
	return e.Unit.Show(e.Value)
}

// Show writes a number for people.
func (u Unit) Show(v float64) string {
	switch u {
	case Bytes:
		if v < 0 {
			return "-" + humanize.IBytes(uint64(-v))
		}
		return humanize.IBytes(uint64(v))
	case Ratio:
		return strconv.FormatFloat(100*v, 'f', 1, 64) + " %"
	case Seconds:
		return showSeconds(v)
	case Rate:
		return strconv.FormatFloat(v, 'f', 1, 64) + "/s"
	case Times:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case Index:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case Count:
	}
	return humanize.Comma(int64(v))
}

// showSeconds rounds to what is worth reading.
func showSeconds(v float64) string {
	d := time.Duration(v * float64(time.Second))
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= time.Minute:
		text := d.Round(time.Second).String() // "24h0m0s", "10m0s", "1m30s"
		for _, none := range []string{"0s", "0m"} {
			if rest := strings.TrimSuffix(text, none); strings.HasSuffix(rest, "m") || strings.HasSuffix(rest, "h") {
				text = rest
			}
		}
		return text
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// order sorts findings: the worst first, causes before what they explain, then by
// ID and subject.
func order(all []Finding) {
	depths := map[string]int{} // of those with causes: of those that they follow from, one more
	for range all {            // a chain is no longer than that, and a ring ends
		for _, f := range all {
			for _, by := range f.ExplainedBy {
				depths[f.ID] = min(len(all), max(depths[f.ID], depths[by]+1))
			}
		}
	}
	depth := func(f Finding) int {
		if len(f.ExplainedBy) == 0 {
			return 0
		}
		return depths[f.ID]
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(depth(a), depth(b)),
			cmp.Compare(a.ID, b.ID), cmp.Compare(a.Subject, b.Subject))
	})
}
