package cli

import (
	"fmt"
	"io"
	"time"

	"kvd/cmd/kvd/cli/render"
	"kvd/cmd/kvd/drill"
)

// tellStale tells one phase of the drill.
func tellStale(w io.Writer, r drill.StaleReport, p drill.Phase) error {
	t := &teller{w: w}
	switch p {
	case drill.PhaseReproduce:
		t.staleCut(r)
	case drill.PhaseDiagnose:
		t.staleDuring(r)
		t.said(r.Diagnosed)
	case drill.PhaseRemedy:
		t.say("REMEDY: connect it again")
		if r.CaughtUpSeconds > 0 {
			t.say("%s served a linearizable read again %s after the mend: it has got from the leader what it missed.", r.Follower, seconds(r.CaughtUpSeconds))
		}
		t.gap()
	case drill.PhaseProve:
		t.say("PROVE: one more write, and the same reads again")
		t.reads(r.After)
		t.said(r.DiagnosedAfter)
	case drill.PhaseEnd:
		t.end(r.Ending)
	}
	return t.err
}

func (t *teller) staleCut(r drill.StaleReport) {
	t.say("REPRODUCE: cut a follower off from its peers")
	t.say("%s, ready after %s; %s leads, %s is the follower. While all are connected:", count(r.Members, "member"), seconds(r.StartSeconds), r.Leader, r.Follower)
	t.reads(r.Before)
	if r.Writes == 0 {
		return
	}
	t.say("Then %s was cut off at revision %d, and its clients still reach it. The others went on: %d writes in %s, now at revision %d.",
		r.Follower, r.CutRevision, r.Writes, seconds(r.WriteSeconds), r.HeadRevision)
	t.gap()
}

func (t *teller) staleDuring(r drill.StaleReport) {
	t.say("DIAGNOSE: who answers what")
	if len(r.During.Reads) == 0 {
		return
	}
	t.say("%s after the cut %s noticed that it has no leader. That does not keep it from answering:", seconds(r.Leaderless), r.Follower)
	t.reads(r.During)
	t.say("Serializable: answered from the member's own data, as fast as ever. What it lacks was written up to %s ago, and nothing in the answer says so.", seconds(r.AgeSeconds))
	t.say("Linearizable: the member first asks the leader how far the cluster has come, and waits until it is there itself. Through %s:", r.Follower)
	rows(t, refusedReadColumns(), r.Refused)
}

func (t *teller) reads(at drill.StaleReads) {
	rows(t, readColumns(at.Reads), at.Reads)
}

// readColumns has a column for each quantile that was measured.
func readColumns(reads []drill.ReadKinds) render.Columns[drill.ReadKinds] {
	out := render.Columns[drill.ReadKinds]{
		{Header: "through", Value: func(k drill.ReadKinds) string { return k.Through }},
		{Header: "read", Value: func(k drill.ReadKinds) string { return k.Kind }},
		num("reads", func(k drill.ReadKinds) any { return k.Reads }),
		num("fresh", func(k drill.ReadKinds) any { return k.Fresh }),
		num("old", func(k drill.ReadKinds) any { return k.Old }),
		num("failed", func(k drill.ReadKinds) any { return k.Failed }),
		num("revision", func(k drill.ReadKinds) any { return k.Revision }),
		num("behind", func(k drill.ReadKinds) any { return k.Behind }),
	}
	if len(reads) == 0 {
		return out
	}
	for i, q := range reads[0].Latencies {
		out = append(out, num(fmt.Sprintf("p%g", q.Percent), func(k drill.ReadKinds) any {
			if i >= len(k.Latencies) {
				return "-"
			}
			return time.Duration(k.Latencies[i].Seconds * float64(time.Second)).Round(10 * time.Microsecond)
		}))
	}
	return out
}

func refusedReadColumns() render.Columns[drill.RefusedRead] {
	return render.Columns[drill.RefusedRead]{
		{Header: "read", Value: func(r drill.RefusedRead) string { return r.Kind }},
		{Header: "asked with", Value: func(r drill.RefusedRead) string { return r.Asked }},
		{Header: "result", Value: func(r drill.RefusedRead) string {
			if r.Answered {
				return fmt.Sprintf("answered at revision %d", r.Revision)
			}
			return r.Error
		}},
		{Header: "took", Right: true, Value: func(r drill.RefusedRead) string { return seconds(r.TookSeconds) }},
	}
}
