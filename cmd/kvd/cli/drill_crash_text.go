package cli

import (
	"fmt"
	"io"

	"kvd/cmd/kvd/cli/render"
	"kvd/cmd/kvd/drill"
)

// tellCrash tells one phase of the drill.
func tellCrash(w io.Writer, r drill.CrashReport, p drill.Phase) error {
	t := &teller{w: w}
	switch p {
	case drill.PhaseReproduce:
		t.crashed(r)
	case drill.PhaseDiagnose:
		t.crashFiles(r)
		t.said(r.Diagnosed)
	case drill.PhaseRemedy:
		t.crashStarts(r)
	case drill.PhaseProve:
		t.crashProof(r)
		t.said(r.DiagnosedAfter)
	case drill.PhaseEnd:
		t.end(r.Ending)
	}
	return t.err
}

func (t *teller) crashed(r drill.CrashReport) {
	t.say("REPRODUCE: kill %s under load", r.Kill)
	t.say("%s, ready after %s. %d writers; each write is a key of its own under %s, with a value of %s.",
		count(r.Members, "member"), seconds(r.StartSeconds), r.Load.Writers, r.Load.KeyPrefix, sizeText(int64(r.Load.ValueBytes)))
	if len(r.Killed) == 0 || r.Load.LoadSeconds == 0 {
		return
	}
	t.say("After %s of that, SIGKILL. What these members had done a moment before:", seconds(r.Load.LoadSeconds))
	rows(t, victimColumns(), r.Killed)
	t.say("A write is acknowledged once a majority has it in the log and has synced it (fsync); one sync covers many writes that came together.")
	t.say("The database is committed less often, every %s or %d changes: until then a change is in memory, and in the log.",
		seconds(r.Load.BatchIntervalSeconds), r.Load.BatchLimit)
	t.gap()
}

func (t *teller) crashFiles(r drill.CrashReport) {
	t.say("DIAGNOSE: what the killed members left on disk")
	if len(r.Files) == 0 {
		return
	}
	rows(t, crashFileColumns(), r.Files)
	for _, f := range r.Files {
		t.say("%s: its database has applied entry %d, its log goes on to entry %d of term %d. %d acknowledged writes are in the log alone: without it they would be lost.",
			f.Member, f.ConsistentIndex, f.LastIndex, f.LastTerm, f.AckedInLog)
		if f.AckedNowhere != 0 {
			t.say("%s: %d acknowledged writes are in neither; a majority of the others has them in their logs.", f.Member, f.AckedNowhere)
		}
		if f.Torn != nil {
			t.say("%s: the last record was cut short, in %s; etcd cuts it off.", f.Member, f.Torn.Position)
		}
		for _, m := range f.Mismatches {
			t.say("%s: %s", f.Member, m.Says)
		}
	}
	t.say("The commit index in the log may lag behind both: it is written along with the next entries, not for itself.")
	t.gap()
}

func (t *teller) crashStarts(r drill.CrashReport) {
	t.say("REMEDY: start them again")
	if len(r.Starts) == 0 {
		return
	}
	rows(t, crashStartColumns(), r.Starts)
	t.say("Each began at the consistent index of its file, skipped what the database had already, and applied the rest, so that nothing is done twice.")
	t.gap()
}

func (t *teller) crashProof(r drill.CrashReport) {
	t.say("PROVE: %d writes were acknowledged, the last at revision %d; %d were sent and never answered", r.Load.Acknowledged, r.Load.LastRevision, r.Load.Unanswered)
	rows(t, crashFoundColumns(), r.Proof.Members)
}

func num[T any](header string, value func(T) any) render.Column[T] {
	return render.Column[T]{Header: header, Right: true, Value: func(r T) string { return fmt.Sprint(value(r)) }}
}

func victimColumns() render.Columns[drill.CrashVictim] {
	return render.Columns[drill.CrashVictim]{
		{Header: "killed", Value: func(v drill.CrashVictim) string { return v.Member }},
		{Header: "role", Value: func(v drill.CrashVictim) string { return v.Role }},
		num("entries committed", func(v drill.CrashVictim) any { return v.Proposals }),
		num("log syncs", func(v drill.CrashVictim) any { return v.Fsyncs }),
		num("db commits", func(v drill.CrashVictim) any { return v.Commits }),
	}
}

func crashFileColumns() render.Columns[drill.CrashFiles] {
	return render.Columns[drill.CrashFiles]{
		{Header: "member", Value: func(f drill.CrashFiles) string { return f.Member }},
		num("consistent index", func(f drill.CrashFiles) any { return f.ConsistentIndex }),
		num("last entry", func(f drill.CrashFiles) any { return f.LastIndex }),
		num("term", func(f drill.CrashFiles) any { return f.LastTerm }),
		num("commit in log", func(f drill.CrashFiles) any { return f.Commit }),
		num("behind db", func(f drill.CrashFiles) any { return f.Behind }),
		num("writes in db", func(f drill.CrashFiles) any { return f.WritesInDB }),
		num("only in log", func(f drill.CrashFiles) any { return f.WritesInLog }),
		num("acknowledged", func(f drill.CrashFiles) any { return f.AckedInLog }),
	}
}

func crashStartColumns() render.Columns[drill.CrashStart] {
	return render.Columns[drill.CrashStart]{
		{Header: "started", Value: func(s drill.CrashStart) string { return s.Member }},
		{Header: "ready", Right: true, Value: func(s drill.CrashStart) string { return seconds(s.TookSeconds) }},
		num("began at", func(s drill.CrashStart) any { return s.ConsistentIndex }),
		num("writes applied", func(s drill.CrashStart) any { return s.Applied }),
		num("from its log", func(s drill.CrashStart) any { return s.FromLog }),
		num("from the leader", func(s drill.CrashStart) any { return s.FromLeader }),
		num("dropped", func(s drill.CrashStart) any { return s.Dropped }),
		num("revision", func(s drill.CrashStart) any { return s.Revision }),
	}
}

func crashFoundColumns() render.Columns[drill.CrashFound] {
	return render.Columns[drill.CrashFound]{
		{Header: "read from", Value: func(f drill.CrashFound) string { return f.Member }},
		num("keys", func(f drill.CrashFound) any { return f.Keys }),
		num("exactly once", func(f drill.CrashFound) any { return f.ExactlyOnce }),
		num("lost", func(f drill.CrashFound) any { return f.Lost }),
		num("otherwise", func(f drill.CrashFound) any { return f.Wrong }),
		num("unanswered, there", func(f drill.CrashFound) any { return f.UnansweredThere }),
		num("by half", func(f drill.CrashFound) any { return f.UnansweredHalf }),
	}
}
