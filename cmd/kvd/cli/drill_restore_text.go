package cli

import (
	"fmt"
	"io"

	"kvd/cmd/kvd/cli/render"
	"kvd/cmd/kvd/drill"
)

// tellRestore tells one phase of the drill.
func tellRestore(w io.Writer, r drill.RestoreReport, p drill.Phase) error {
	t := &teller{w: w}
	switch p {
	case drill.PhaseReproduce:
		t.lost(r)
	case drill.PhaseDiagnose:
		t.lossDiagnosed(r.Diagnosis)
		t.said(r.Diagnosed)
	case drill.PhaseRemedy:
		t.restoredTwice(r)
	case drill.PhaseProve:
		t.restoreProof(r)
		t.said(r.DiagnosedAfter)
	case drill.PhaseEnd:
		t.end(r.Ending)
	}
	return t.err
}

func (t *teller) lost(r drill.RestoreReport) {
	t.say("REPRODUCE: lose a whole cluster")
	t.say("%s, ready after %s. Filled as Kubernetes does it: %s acknowledged.", count(r.Members, "member"), seconds(r.StartSeconds), count(int(r.AcknowledgedBefore), "write"))
	rows(t, loadColumns(), r.Written)
	s := r.Snapshot
	if s.File == "" {
		return
	}
	t.say("Snapshot of %s (%s): revision %d, %d keys, %s, %s, saved and verified in %s.",
		s.Member, s.Role, s.Revision, s.Keys, count(int(s.Leases), "lease"), sizeText(s.SizeBytes), seconds(s.TookSeconds))
	if r.Watcher.Prefix == "" {
		return
	}
	t.say("Then %s more, the last at revision %d. A client that had listed %s at revision %d has heard %d changes, and knows revision %d.",
		count(int(r.AcknowledgedAfter), "acknowledged write"), r.LastRevision, r.Watcher.Prefix, r.Watcher.ListRevision, r.Watcher.Events, r.Watcher.Revision)
	t.say("Then SIGKILL for every member, and its data and its log are removed.")
	t.gap()
}

func (t *teller) lossDiagnosed(d drill.RestoreDiagnosis) {
	t.say("DIAGNOSE: what is left")
	if d.Verdict == "" {
		return
	}
	t.say("The snapshot is %s: %s.", d.Verdict.Words(), d.Summary)
	t.say("It ends at revision %d: clients are %d revisions ahead of it, and %s are not in it:", d.Revision, d.Ahead, count(int(d.Lost), "acknowledged write"))
	rows(t, lostColumns(), d.Resources)
	for _, w := range d.Examples {
		t.say("  revision %d  %s", w.Revision, w.Key)
	}
	t.say("Nothing brings these back. What matters now is that clients learn of it.")
	t.gap()
}

func (t *teller) restoredTwice(r drill.RestoreReport) {
	t.say("REMEDY: restore all members, twice")
	if r.Plain.Revision == 0 {
		return
	}
	t.run("First, the revision as it is in the file.", r.Plain)
	if w := r.Plain.Watch; w.Error == "" && w.Events == 0 {
		t.say("That is the trap: no event, and no error. The client goes on with what it knew, until the revision passes the one it waits for; what happened below it never hears.")
	}
	t.gap()
	if r.Bumped.Revision == 0 {
		return
	}
	t.run(fmt.Sprintf("Again, from the same file, with the revision lifted by %d and all before marked as compacted.", r.Bumped.BumpRevision), r.Bumped)
	if l := r.Relist; l.Revision != 0 {
		t.say("So it lists anew (%d keys at revision %d) and watches from there: it hears %d of %s.", l.Keys, l.Revision, l.Watch.Events, count(len(l.Writes), "write"))
	}
	t.gap()
}

// run tells of one restore.
func (t *teller) run(how string, run drill.RestoreRun) {
	t.say("%s Restored in %s, ready after %s, at revision %d.", how, seconds(run.RestoreSeconds), seconds(run.StartSeconds), run.Revision)
	if run.Get.Error != "" {
		t.say("A read at revision %d, which the client knew: %s", run.Get.Revision, run.Get.Error)
	}
	if len(run.Writes) == 0 {
		return
	}
	t.say("Its watch goes on from revision %d, and a kubelet renews its Lease through each member:", run.Watch.FromRevision)
	rows(t, attemptColumns(), run.Writes)
	t.say("A watch that begins now hears %d of them. The client's hears %d within another %s.", run.Watch.FreshEvents, run.Watch.Events, seconds(run.Watch.WaitedSeconds))
	if run.Watch.Error != "" {
		t.say("It is ended: %s (compacted up to revision %d)", run.Watch.Error, run.Watch.CompactRevision)
	}
}

func (t *teller) restoreProof(r drill.RestoreReport) {
	t.say("PROVE: everything that was acknowledged before the snapshot, on every member")
	rows(t, restoredColumns(), r.Proof.Members)
	rows(t, restoredLeaseColumns(), r.Proof.Leases)
	if len(r.Proof.Writes) == 0 {
		return
	}
	t.say("Writes go on, above revision %d, the highest that any client had seen:", r.Proof.HighestSeen)
	rows(t, attemptColumns(), r.Proof.Writes)
}

func lostColumns() render.Columns[drill.LostResource] {
	return render.Columns[drill.LostResource]{
		{Header: "lost", Value: func(l drill.LostResource) string { return l.Resource }},
		num("writes", func(l drill.LostResource) any { return l.Writes }),
	}
}

func restoredColumns() render.Columns[drill.RestoredMember] {
	return render.Columns[drill.RestoredMember]{
		{Header: "read from", Value: func(m drill.RestoredMember) string { return m.Member }},
		num("keys", func(m drill.RestoredMember) any { return m.Keys }),
		num("equal", func(m drill.RestoredMember) any { return m.Equal }),
		num("otherwise", func(m drill.RestoredMember) any { return m.Otherwise }),
		num("lost", func(m drill.RestoredMember) any { return m.Lost }),
		num("never there", func(m drill.RestoredMember) any { return m.Foreign }),
		num("leases", func(m drill.RestoredMember) any { return m.EqualLeases }),
		num("hash", func(m drill.RestoredMember) any { return m.Hash }),
		num("at revision", func(m drill.RestoredMember) any { return m.HashRevision }),
	}
}

func restoredLeaseColumns() render.Columns[drill.RestoredLease] {
	return render.Columns[drill.RestoredLease]{
		{Header: "lease", Value: func(l drill.RestoredLease) string { return l.ID }},
		num("keys", func(l drill.RestoredLease) any { return l.Keys }),
		num("ttl", func(l drill.RestoredLease) any { return seconds(float64(l.TTLSeconds)) }),
		num("left at the snapshot", func(l drill.RestoredLease) any { return seconds(float64(l.LeftBefore)) }),
		num("left now", func(l drill.RestoredLease) any { return seconds(float64(l.LeftSeconds)) }),
	}
}
