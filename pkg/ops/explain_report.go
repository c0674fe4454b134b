package ops

import (
	"slices"

	"kvd/pkg/ops/fault"
)

// conclude judges each member, and shows the one where it goes worst; the leader
// of equally bad ones.
func (c *writeCollector) conclude(r *WriteReport) {
	rank := map[string]int{WriteRefused: 3, WriteUnknown: 2, WriteAccepted: 1, WriteUnreachable: 0}
	best := -1
	for n, i := range c.judged {
		m := c.f.Members[i]
		v := JudgeWrite(c.f, m)
		r.Members = append(r.Members, v)
		switch {
		case best < 0, rank[v.Verdict] > rank[r.Members[best].Verdict],
			rank[v.Verdict] == rank[r.Members[best].Verdict] && m.Leads:
			best = n
		}
	}
	r.User, r.Sent = c.f.Who.Name, c.sent
	if best < 0 {
		r.Verdict = WriteUnreachable
		return
	}
	shown := r.Members[best]
	r.Verdict, r.StopsAt, r.Error, r.Member = shown.Verdict, shown.StopsAt, shown.Error, c.f.Members[c.judged[best]].label()
	if r.Verdict == WriteUnreachable {
		r.unreachable = c.f.Members[c.judged[best]].Err
	}
	r.AtTheLatest, r.Why = shown.AtTheLatest, shown.Why
	if shown.steps != nil {
		r.Steps = shown.steps
	}
	r.RaisesNoSpace = r.Verdict == WriteAccepted && slices.ContainsFunc(shown.steps, func(s WriteStep) bool { return s.Numbers["members_without_room"] > 0 })
	r.Notes = append(r.Notes, writeNotes(c.f, c.judged)...)
	r.Notes = append(r.Notes, limitNote(c.f.Write, shown)...)
	if len(c.view.Members) > 0 {
		for _, u := range c.view.Unreached {
			r.Notes = append(r.Notes, u.Endpoint+" is not judged: "+fault.Why(u.Err))
		}
	}
}

// limitNote says that a verdict rests on the default of --max-request-bytes,
// where the write is too large for that or large enough for a server with a lower
// one.
func limitNote(w WriteRequest, v WriteVerdict) []string {
	const note = "--max-request-bytes is assumed to be etcd's default, 1.5 MiB, since no request tells the servers' own: "
	if w.MaxRequest > 0 {
		return nil
	}
	for _, s := range v.steps {
		switch {
		case s.State == StepStops && (s.Check == "receive_limit" || s.Check == "request_size"):
			return []string{note + "servers with a larger one take the write; give theirs with --max-request-bytes"}
		case s.State == StepStops:
			return nil
		case s.Check == "request_size" && w.messageBytes() > smallMessage:
			return []string{note + "servers with one below the size of the write refuse it; give theirs with --max-request-bytes"}
		}
	}
	return nil
}

// writeNotes says what the steps rest on that could be otherwise.
func writeNotes(f WriteFacts, judged []int) []string {
	out := []string{}
	if f.Voters == 0 {
		out = append(out, "the members of the cluster are not known, for they are told to users only, and not by a learner: judged are the endpoints given")
	}
	for _, i := range judged {
		m := f.Members[i]
		if m.Version != "" && m.Version != explainedVersion {
			out = append(out, m.label()+" runs etcd "+m.Version+"; the checks are those of "+explainedVersion)
		}
		if m.Source == "metrics" {
			out = append(out, m.label()+" did not tell its status ("+fault.Why(m.Err)+"); its numbers are from its metrics, whose applied index moves once per batch")
		}
	}
	return out
}

// explainedVersion is the version of etcd whose source JudgeWrite follows.
const explainedVersion = "3.7.3"
