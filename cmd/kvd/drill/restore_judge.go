package drill

import (
	"fmt"

	"kvd/pkg/ops/snapshot"
)

// snapshotMissing holds the snapshot against what the cluster held.
func (s *restoring) snapshotMissing() []string {
	if got, want := s.r.Snapshot, s.saved; got.Revision != want.revision || got.Keys != int64(len(want.keys)) {
		return []string{fmt.Sprintf("the snapshot has %d keys at revision %d, the cluster had %d at %d", got.Keys, got.Revision, len(want.keys), want.revision)}
	}
	return nil
}

// diagnosisMissing holds the file against what was saved, and what it lacks against
// what was written.
func (s *restoring) diagnosisMissing(v *snapshot.Verification) []string {
	var out []string
	d := s.r.Diagnosis
	if v.Verdict != snapshot.Restorable {
		out = append(out, "the snapshot does not restore: "+v.Summary)
	}
	if v.Content.Digests.FileSHA256 != s.r.Snapshot.SHA256 {
		out = append(out, "the file is not the one that was saved: its sha256 is another than the manifest's")
	}
	if d.Ahead < int64(s.o.Members) {
		out = append(out, fmt.Sprintf("the watcher is only %d revisions ahead of the snapshot", d.Ahead))
	}
	if d.Lost != s.r.AcknowledgedAfter {
		out = append(out, fmt.Sprintf("%d acknowledged writes are behind the snapshot, and %d were written after it", d.Lost, s.r.AcknowledgedAfter))
	}
	return out
}

// silenceMissing says what the watcher heard that it should not have, after the
// restore that leaves the revision as it was.
func (s *restoring) silenceMissing() []string {
	var out []string
	run := s.r.Plain
	if run.Revision != s.r.Snapshot.Revision || run.KVHash != s.r.Snapshot.KVHash {
		out = append(out, fmt.Sprintf("restored, the cluster is at revision %d with hash %d, the snapshot at %d with %d", run.Revision, run.KVHash, s.r.Snapshot.Revision, s.r.Snapshot.KVHash))
	}
	if run.Watch.Events != 0 || run.Watch.Error != "" {
		out = append(out, fmt.Sprintf("the watch from revision %d heard %d events, %q", run.Watch.FromRevision, run.Watch.Events, run.Watch.Error))
	}
	if run.Get.Error == "" {
		out = append(out, fmt.Sprintf("a read at revision %d is answered", run.Get.Revision))
	}
	if last := lastRevision(run.Writes); last > s.r.Watcher.Revision {
		out = append(out, fmt.Sprintf("the writes have reached revision %d, which is above the watcher's %d", last, s.r.Watcher.Revision))
	}
	return append(out, newWatchMissing(run.Watch, run.Writes)...)
}

// toldMissing says what the watcher was not told after the restore that lifts the
// revision.
func (s *restoring) toldMissing() []string {
	var out []string
	run := s.r.Bumped
	if run.Revision <= s.r.Watcher.Revision {
		out = append(out, fmt.Sprintf("the revision is %d, and the watcher has seen %d", run.Revision, s.r.Watcher.Revision))
	}
	if !run.Watch.Compacted || run.Watch.CompactRevision <= s.r.Watcher.Revision {
		out = append(out, fmt.Sprintf("the watch from revision %d was not ended as compacted above it (%d events, compact revision %d, %q)",
			run.Watch.FromRevision, run.Watch.Events, run.Watch.CompactRevision, run.Watch.Error))
	}
	return append(out, newWatchMissing(run.Watch, run.Writes)...)
}

// relistMissing says what the watcher did not hear once it had listed anew.
func (s *restoring) relistMissing() []string {
	var out []string
	if s.r.Relist.Keys == 0 {
		out = append(out, "the new list is empty")
	}
	if w := s.r.Relist.Watch; w.Events != int64(len(s.r.Relist.Writes)) {
		out = append(out, fmt.Sprintf("the watch from revision %d heard %d of %d writes, %q", w.FromRevision, w.Events, len(s.r.Relist.Writes), w.Error))
	}
	return out
}

// newWatchMissing says what a watch did not hear that was opened before the writes.
func newWatchMissing(w RestoreWatch, writes []Attempt) []string {
	if w.FreshEvents == int64(len(writes)) {
		return nil
	}
	return []string{fmt.Sprintf("a new watch heard %d of %d writes", w.FreshEvents, len(writes))}
}

// proofMissing judges what the members have in common.
func (s *restoring) proofMissing() []string {
	out := writtenMissing(s.r.Proof.Writes)
	for _, a := range s.r.Proof.Writes {
		if a.Revision != 0 && a.Revision <= s.r.Proof.HighestSeen {
			out = append(out, fmt.Sprintf("%s wrote at revision %d, and clients have seen %d", a.Member, a.Revision, s.r.Proof.HighestSeen))
		}
	}
	first := s.r.Proof.Members[0]
	for _, m := range s.r.Proof.Members[1:] {
		if m.Hash != first.Hash || m.HashRevision != first.HashRevision || m.CompactRevision != first.CompactRevision {
			out = append(out, fmt.Sprintf("%s and %s hold different content: hash %d and %d", first.Member, m.Member, first.Hash, m.Hash))
		}
	}
	return out
}

func lastRevision(writes []Attempt) int64 {
	var last int64
	for _, a := range writes {
		last = max(last, a.Revision)
	}
	return last
}
