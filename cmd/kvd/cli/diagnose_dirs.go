package cli

import (
	"fmt"
	"io"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/diagnose"
)

// dirsTable sets data directories side by side.
func dirsTable(w io.Writer, r diagnose.Report) error {
	if len(r.Dirs) < 2 {
		return nil
	}
	fmt.Fprintln(w)
	type l = diagnose.DirLine
	index := func(v *uint64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprint(*v)
	}
	err := render.Columns[l]{
		{Header: "directory", Value: func(d l) string { return d.Path }},
		{Header: "member", Value: func(d l) string { return orDefault(orDefault(d.Name, d.Member), "-") }},
		{Header: "cluster", Value: func(d l) string { return orDefault(d.Cluster, "-") }},
		{Header: "term", Right: true, Value: func(d l) string { return fmt.Sprint(d.Term) }},
		{Header: "last", Right: true, Value: func(d l) string { return fmt.Sprint(d.Last) }},
		{Header: "commit", Right: true, Value: func(d l) string { return fmt.Sprint(d.Commit) }},
		{Header: "consistent", Right: true, Value: func(d l) string { return index(d.ConsistentIndex) }},
		{Header: "revision", Right: true, Value: func(d l) string {
			if d.Revision == nil {
				return "-"
			}
			return fmt.Sprint(*d.Revision)
		}},
		{Header: "a start", Value: func(d l) string { return d.Starts }},
	}.Write(w, r.Dirs)
	if r.Newest != "" {
		fmt.Fprintln(w, render.Safe(r.Newest))
	}
	return err
}
