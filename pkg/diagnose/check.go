package diagnose

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kvd/pkg/ops/fault"
)

// Check looks at one thing. It is a function of an Input.
type Check struct {
	Name  string   // for people and scripts: "quota"
	Asks  string   // the question that it answers
	IDs   []string // the findings that it may give
	Needs []Need   // what the Input must have
	// Look returns what it found and, for a screen that says what is good, what it
	// measured, in a few words.
	Look func(*Input) (found []Finding, measured string)
	// Blind says what Look could not see although it was there to be asked, nil for
	// nothing. A check that was blind to something is never good.
	Blind func(*Input) []Missing
}

// Need is a part of an Input.
type Need string

// The parts.
const (
	NeedView    Need = "status of the members"
	NeedStatus  Need = "sizes and indexes"
	NeedTwo     Need = "two looks at the members"
	NeedMetrics Need = "metrics"
	NeedDelta   Need = "two samples of the metrics"
	NeedFsyncs  Need = "WAL fsyncs between the samples"
	NeedCommits Need = "backend commits between the samples"
	NeedLists   Need = "each member's own member list"
	NeedLeases  Need = "leases"
	NeedKeys    Need = "a sample of what is stored"
	NeedWrites  Need = "the latest writes"
	NeedCerts   Need = "certificates"
	NeedHashes  Need = "HashKV of the members"
	NeedBackups Need = "backups"
	NeedDirs    Need = "data directories"
	NeedCluster Need = "the running cluster" // a comparison goes without it
	NeedFiles   Need = "directories and files"
	NeedDBs     Need = "databases"
	NeedContent Need = "what is stored"
	NeedHeld    Need = "objects and leases of files"
	NeedDisks   Need = "a measured disk"
	NeedTarget  Need = "a version to update to"
	NeedHost    Need = "memory of the machine"
	NeedAuth    Need = "users and roles"
	NeedTokens  Need = "tokens of the members"
	// NeedCompactor is the API server's marker with its age.
	NeedCompactor Need = "when kube-apiserver compacted"
	// NeedRevisions is a status, or a file with one.
	NeedRevisions Need = "revisions"
)

// Missing is something that could not be looked at.
type Missing struct {
	Need     Need   `json:"what"`
	Subject  string `json:"subject,omitempty"` // of whom; empty: of all
	Why      string `json:"why"`
	Hint     string `json:"hint,omitempty"`
	Cause    string `json:"cause,omitempty"`     // as of fault.Error
	ByChoice bool   `json:"by_choice,omitempty"` // it was not asked for
	Denied   bool   `json:"denied,omitempty"`    // it is there, and refuses us
}

// Result is a check that was made.
type Result struct {
	Check    string `json:"check"`
	Asks     string `json:"asks"`
	Findings int    `json:"findings"`
	Measured string `json:"measured,omitempty"`
	Partly   bool   `json:"partly,omitempty"` // not all was looked at: without findings it is not good either
}

// NotLooked is a check, or a part of one, that could not be made.
type NotLooked struct {
	Check string `json:"check"`
	Missing
}

// Report is what a diagnosis comes to.
type Report struct {
	At        time.Time   `json:"at"`
	ClusterID string      `json:"cluster_id,omitempty"`
	Source    string      `json:"source,omitempty"`
	Interval  float64     `json:"interval_seconds,omitempty"` // between the two samples; 0: there is one
	Findings  []Finding   `json:"findings"`
	Checks    []Result    `json:"checks"`
	NotLooked []NotLooked `json:"not_looked"`
	Asked     []Asked     `json:"asked,omitempty"` // what it took to find out
	Dirs      []DirLine   `json:"data_dirs,omitempty"`
	Newest    string      `json:"newest_data_dir,omitempty"` // of several: which to keep, and why
}

// Asked is a kind of request and how many were sent.
type Asked struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}

// Diagnose runs all checks over an input.
func Diagnose(in *Input) Report { return run(in, Checks()) }

func run(in *Input, checks []Check) Report {
	r := Report{At: in.At, Source: in.Source, Findings: []Finding{}, Checks: []Result{}, NotLooked: []NotLooked{}, Asked: in.Asked}
	r.ClusterID, r.Interval = in.clusterID(), in.interval().Seconds()
	for _, c := range checks {
		if skipped, why := in.lacks(c); skipped {
			r.NotLooked = append(r.NotLooked, why...)
			continue
		}
		found, measured := c.Look(in)
		blind := c.blind(in)
		r.Checks = append(r.Checks, Result{Check: c.Name, Asks: c.Asks, Findings: len(found), Measured: measured, Partly: len(blind) > 0})
		r.NotLooked = append(append(r.NotLooked, in.partly(c)...), blind...)
		for _, f := range found {
			if f.elsewhere {
				continue
			}
			r.Findings = append(r.Findings, complete(f))
		}
	}
	explain(r.Findings)
	order(r.Findings)
	r.dropReferences(in)
	r.Dirs, r.Newest = compareDirs(in.Dirs)
	return r
}

// blind lists what a check could not see.
func (c Check) blind(in *Input) []NotLooked {
	if c.Blind == nil {
		return nil
	}
	var out []NotLooked
	for _, m := range c.Blind(in) {
		out = append(out, NotLooked{c.Name, m})
	}
	return out
}

var seeFinding = regexp.MustCompile(`^see (KVD-[A-Z]+-\d+)$`)

// dropReferences takes away hints at findings that are not in the report: where nobody
// says who votes, whom to ask for that is what helps.
func (r *Report) dropReferences(in *Input) {
	for i := range r.NotLooked {
		n := &r.NotLooked[i]
		if m := seeFinding.FindStringSubmatch(n.Hint); m != nil && !r.Has(m[1]) {
			n.Hint = ""
			if in.has(NeedView) {
				n.Hint = fault.HintOf(in.view().VotersErr(""))
			}
		}
	}
}

// complete fills in what the catalogue knows of a finding.
func complete(f Finding) Finding {
	f.Page = "docs/findings/" + f.ID + ".md"
	if f.Why == "" {
		f.Why = Catalogue()[f.ID].Why
	}
	if f.Evidence == nil {
		f.Evidence = []Evidence{}
	}
	for i := range f.Evidence { // a damaged file of metrics has any number, and JSON only some
		if e := &f.Evidence[i]; math.IsNaN(e.Value) || math.IsInf(e.Value, 0) {
			e.Text, e.Value = strconv.FormatFloat(e.Value, 'g', -1, 64), 0
		}
	}
	f.Next = make([]Step, 0, len(f.Remedy))
	for _, line := range f.Remedy {
		f.Next = append(f.Next, stepOf(line))
	}
	return f
}

// explain drops causes that are not in the report, and what would explain itself.
func explain(all []Finding) {
	for i := range all {
		f := &all[i]
		f.ExplainedBy = slices.DeleteFunc(slices.Clone(f.ExplainedBy), func(id string) bool {
			return id == f.ID || !slices.ContainsFunc(all, func(o Finding) bool { return o.ID == id })
		})
		slices.Sort(f.ExplainedBy)
		f.ExplainedBy = slices.Compact(f.ExplainedBy)
	}
}

// Worst returns the findings of a severity and above.
func (r Report) Worst(s Severity) []Finding {
	var out []Finding
	for _, f := range r.Findings {
		if f.Severity.AtLeast(s) {
			out = append(out, f)
		}
	}
	return out
}

// Has reports whether there is a finding of that ID.
func (r Report) Has(id string) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.ID == id })
}

// lacks reports that a check cannot be made, with why if it was meant to be.
func (in *Input) lacks(c Check) (bool, []NotLooked) {
	for _, n := range c.Needs {
		if in.has(n) {
			continue
		}
		var out []NotLooked
		for _, m := range in.missing(n) {
			out = append(out, NotLooked{c.Name, m})
		}
		return true, out
	}
	return false, nil
}

// partly lists whom a check could not look at.
func (in *Input) partly(c Check) []NotLooked {
	var out []NotLooked
	for _, n := range c.Needs {
		for _, m := range in.missing(n) {
			out = append(out, NotLooked{c.Name, m})
		}
	}
	return out
}

// Grouped lists what could not be looked at with the checks that it concerns: one
// line for one reason.
func (r Report) Grouped() []NotLooked {
	var out []NotLooked
	for _, n := range r.NotLooked {
		same := func(o NotLooked) bool { return o.Subject == n.Subject && o.Why == n.Why }
		if i := slices.IndexFunc(out, same); i < 0 {
			out = append(out, n)
		} else if !slices.Contains(strings.Split(out[i].Check, ", "), n.Check) {
			out[i].Check += ", " + n.Check
		}
	}
	return out
}
