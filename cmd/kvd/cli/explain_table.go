package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops"
)

// writeTable draws a walk: the verdict first, then every step.
func writeTable(r ops.WriteReport) func(io.Writer) error {
	return func(w io.Writer) error {
		who := ""
		if r.User != "" {
			who = " by " + r.User
		}
		fmt.Fprintf(w, "put %q, %s%s\n", r.Key, sizeText(r.Value), render.Safe(who+": "+verdictLine(r))) // %q is safe, and escapes once
		if len(r.Members) > 1 {
			fmt.Fprintln(w)
			if err := verdictColumns().Write(w, r.Members); err != nil {
				return err
			}
		}
		if len(r.Steps) > 0 {
			fmt.Fprintf(w, "\nthe way through %s\n", render.Safe(r.Member))
			if err := stepColumns(r.StopsAt).Write(w, r.Steps); err != nil {
				return err
			}
		}
		for _, n := range r.Notes {
			fmt.Fprintf(w, "note: %s\n", render.Safe(n))
		}
		var sent []string
		for _, s := range r.Sent {
			raft := ""
			if s.Raft {
				raft = " (raft proposals)"
			}
			sent = append(sent, fmt.Sprintf("%d × %s%s", s.Count, s.What, raft))
		}
		fmt.Fprintf(w, "sent: %s; nothing was written to the key space\n", strings.Join(sent, ", "))
		return nil
	}
}

func verdictLine(r ops.WriteReport) string {
	switch r.Verdict {
	case ops.WriteRefused:
		if r.AtTheLatest {
			return fmt.Sprintf("would be refused at %s at the latest; not known is %s", r.StopsAt, r.Why)
		}
		return fmt.Sprintf("would be refused at %s; the client is told %q", r.StopsAt, r.Error)
	case ops.WriteAccepted:
		if r.RaisesNoSpace {
			return "would be accepted, and be the last: it makes the cluster read-only, see quota_at_apply"
		}
		return "would be accepted"
	case ops.WriteUnreachable:
		return "the member does not answer"
	}
	return "it can't be told"
}

func verdictColumns() render.Columns[ops.WriteVerdict] {
	return render.Columns[ops.WriteVerdict]{
		{Header: "a client of", Value: func(v ops.WriteVerdict) string {
			return cmp.Or(v.Name, v.ID, v.Endpoint)
		}},
		{Header: "role", Value: func(v ops.WriteVerdict) string { return v.Role }},
		{Header: "verdict", Value: func(v ops.WriteVerdict) string { return v.Verdict }},
		{Header: "stops at", Value: func(v ops.WriteVerdict) string {
			if v.AtTheLatest {
				return v.StopsAt + " at the latest"
			}
			return orDash(v.StopsAt)
		}},
		{Header: "is told", Wrap: 60, Value: func(v ops.WriteVerdict) string {
			if v.Error == "" {
				return orDash(v.Why)
			}
			return v.Error
		}},
	}
}

// stepColumns marks the step at which the write ends, and what would have ended
// it later.
func stepColumns(stopsAt string) render.Columns[ops.WriteStep] {
	return render.Columns[ops.WriteStep]{
		{Header: "stage", Value: func(s ops.WriteStep) string { return s.Stage }},
		{Header: "check", Value: func(s ops.WriteStep) string { return s.Check }},
		{Header: "", Value: func(s ops.WriteStep) string {
			switch {
			case s.State == ops.StepStops && s.Check == stopsAt:
				return "STOPS HERE"
			case s.State == ops.StepStops:
				return "would stop"
			}
			return s.State
		}},
		{Header: "because", Wrap: 90, Value: func(s ops.WriteStep) string { return s.Detail }},
	}
}
