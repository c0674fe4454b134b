package keyspace

import (
	"fmt"
	"time"

	"kvd/pkg/ops/kube/envelope"
	"kvd/pkg/ops/kube/keys"
)

// BreakdownOptions says how to put keys into groups, and how closely to look.
type BreakdownOptions struct {
	By     By
	Depth  int // of a tree, and of prefixes that are none of Kubernetes': segments
	Prefix string
	Layout keys.Layout
	// Exact reads every value of a member. Else its live bytes are estimated from
	// a sample of at most SampleBytes.
	Exact       bool
	SampleBytes int64
}

// DefaultBreakdownOptions returns those of a tree of two levels.
func DefaultBreakdownOptions() BreakdownOptions {
	return BreakdownOptions{By: ByTree, Depth: 2, Layout: keys.Default(), SampleBytes: DefaultSampleBytes}
}

func (o BreakdownOptions) query() Query {
	if o.Prefix == "" {
		return Query{}
	}
	from, end := rangeOf(o.Prefix)
	return Query{From: from, End: end}
}

func (o BreakdownOptions) report(name string, b Bounds) Breakdown {
	r := Breakdown{At: time.Now(), Source: name, Revision: b.Head, Oldest: b.Oldest, By: o.By, Prefix: Name(o.Prefix)}
	if o.By == ByTree || o.By == ByPrefix {
		r.Depth = o.Depth
	}
	return r
}

func leaseName(id int64) string {
	if id == 0 {
		return string(GroupNoLease)
	}
	return fmt.Sprintf("%x", uint64(id)) //nolint:gosec // as etcd shows it
}

// kindName names the kind of object that a value says it is.
func kindName(value []byte) string {
	head, _ := envelope.Read(value)
	switch {
	case head.Form == envelope.Encrypted:
		return "(encrypted at rest: " + head.Encryption.String() + ")"
	case head.Kind == "":
		return string(GroupNoObject)
	}
	return head.APIVersion + " " + head.Kind
}
