package keyspace

import (
	"encoding/json"
	"fmt"
	"time"

	"kvd/pkg/ops/fault"
)

// Growth is what a group has more than in an earlier breakdown.
type Growth struct {
	Keys      int64  `json:"keys"`
	Live      int64  `json:"live_bytes"`
	Revisions int64  `json:"history_revisions"`
	History   *int64 `json:"history_bytes,omitempty"` // where both know it
	New       bool   `json:"new,omitempty"`           // it was not there
	Gone      bool   `json:"gone,omitempty"`          // it is no more
}

// Earlier is the breakdown that growth is counted from.
type Earlier struct {
	At       time.Time `json:"at"`
	Source   string    `json:"source"`
	Revision int64     `json:"revision"`
	Total    Growth    `json:"growth"`
}

// ReadBreakdown reads a breakdown that was written as JSON.
func ReadBreakdown(name string, raw []byte) (Breakdown, error) {
	var b Breakdown
	err := json.Unmarshal(raw, &b)
	if err == nil && (b.By == "" || b.Revision == 0) {
		err = fmt.Errorf("it has no groups of keys in it")
	}
	if err != nil {
		return b, &fault.Error{Kind: fault.Usage, Cause: "not_a_report", Op: "read", Subject: name, Err: err,
			Msg: "not a report of `kvd keys usage`", Hint: "make one with: kvd keys usage -o json > FILE"}
	}
	return b, nil
}

// CompareWith adds to each group how much it has grown since an earlier breakdown,
// and the groups that were only in that. Both must have been made with the same
// groups; what they were made of may differ.
func (b *Breakdown) CompareWith(e Breakdown) error {
	if b.By != e.By || b.Depth != e.Depth || b.Prefix != e.Prefix {
		return &fault.Error{Kind: fault.Usage, Cause: "other_groups", Op: "compare",
			Msg:  fmt.Sprintf("the earlier report has other groups: --by %s, depth %d, prefix %q; this one --by %s, depth %d, prefix %q", e.By, e.Depth, e.Prefix, b.By, b.Depth, b.Prefix),
			Hint: "ask for the same groups as then"}
	}
	b.Since = &Earlier{At: e.At, Source: e.Source, Revision: e.Revision, Total: growth(b.Total, e.Total)}
	b.Groups = grown(b.Groups, e.Groups)
	return nil
}

func growth(now, then Amounts) Growth {
	g := Growth{Keys: now.Keys - then.Keys, Live: now.Live - then.Live, Revisions: now.Revisions - then.Revisions}
	if now.History != nil && then.History != nil {
		g.History = new(*now.History - *then.History)
	}
	return g
}

func grown(now, then []Part) []Part {
	before := map[Name]Part{}
	for _, p := range then {
		before[p.Name] = p
	}
	for i := range now {
		p := &now[i]
		old, ok := before[p.Name]
		delete(before, p.Name)
		if !ok {
			old.Amounts = Amounts{History: new(int64)}
		}
		g := growth(p.Amounts, old.Amounts)
		g.New = !ok
		p.Growth = &g
		p.Groups = grown(p.Groups, old.Groups)
	}
	for _, p := range then {
		if _, gone := before[p.Name]; gone {
			g := growth(Amounts{History: new(int64)}, p.Amounts)
			g.Gone = true
			now = append(now, Part{Name: p.Name, Growth: &g, Groups: grown(nil, p.Groups)})
		}
	}
	return now
}

// UnmarshalJSON reads the name: "group", or "group_base64".
func (p *Part) UnmarshalJSON(raw []byte) error {
	type plain Part
	name := struct {
		Text string `json:"group"`
		Raw  []byte `json:"group_base64"`
	}{}
	if err := json.Unmarshal(raw, &name); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, (*plain)(p)); err != nil {
		return err
	}
	p.Name = Name(name.Text)
	if name.Raw != nil {
		p.Name = Name(name.Raw)
	}
	return nil
}

// UnmarshalJSON reads the prefix, if there is one.
func (b *Breakdown) UnmarshalJSON(raw []byte) error {
	type plain Breakdown
	prefix := struct {
		Text string `json:"prefix"`
		Raw  []byte `json:"prefix_base64"`
	}{}
	if err := json.Unmarshal(raw, &prefix); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, (*plain)(b)); err != nil {
		return err
	}
	b.Prefix = Name(prefix.Text)
	if prefix.Raw != nil {
		b.Prefix = Name(prefix.Raw)
	}
	return nil
}
