package drill_test

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

func restoreOptions(t *testing.T, members, writes int) drill.RestoreOptions {
	t.Helper()
	o := drill.DefaultRestoreOptions()
	o.Members, o.Writes, o.Dir = members, writes, t.TempDir()
	o.Command = local.Command{Path: servertest.Binary(t), Args: []string{"serve", "--unsafe-no-fsync"}}
	return o
}

func playRestore(ctx context.Context, t *testing.T, o drill.RestoreOptions) (drill.RestoreReport, error) {
	t.Helper()
	r, err := drill.Restore(ctx, o, progress.Discard)
	logReport(t, r, err)
	nothingLeft(t, o.Dir)
	return r, err
}

// checkRestore asserts what must be so of every restore drill that was proved.
func checkRestore(t *testing.T, o drill.RestoreOptions, r drill.RestoreReport) {
	t.Helper()
	if r.Outcome != drill.Proved || len(r.Missing) != 0 || r.CleanedUp == nil || r.CleanedUp.Processes != o.Members {
		t.Errorf("outcome %s, missing %v, cleaned up %+v", r.Outcome, r.Missing, r.CleanedUp)
	}
	known, d := r.Watcher.Revision, r.Diagnosis
	if r.AcknowledgedBefore < 300 || r.AcknowledgedAfter < int64(o.Writes) || known < r.LastRevision || r.Watcher.Events < r.AcknowledgedAfter {
		t.Errorf("%d acknowledged before, %d after, to %d; watcher %+v", r.AcknowledgedBefore, r.AcknowledgedAfter, r.LastRevision, r.Watcher)
	}
	if d.Verdict != snapshot.Restorable || d.Revision != r.Snapshot.Revision || d.Ahead != known-d.Revision || d.Lost != r.AcknowledgedAfter || len(d.Examples) != 5 {
		t.Errorf("diagnosis %+v of %+v", d, r.Snapshot)
	}
	var lost int64
	for _, l := range d.Resources {
		lost += l.Writes
	}
	if lost != d.Lost {
		t.Errorf("%d lost in all, %d by resource", d.Lost, lost)
	}
	p, b := r.Plain, r.Bumped
	if p.Revision != d.Revision || p.KVHash != r.Snapshot.KVHash || p.Watch.FromRevision != known+1 || p.Watch.Events != 0 || p.Watch.Error != "" ||
		p.Watch.FreshEvents != int64(o.Members) || !strings.Contains(p.Get.Error, "future revision") {
		t.Errorf("plain: %+v", p)
	}
	for i, w := range p.Writes {
		if w.Revision != d.Revision+int64(i)+1 || w.Revision > known {
			t.Errorf("plain: %+v, the watcher knew %d", w, known)
		}
	}
	if b.BumpRevision != snapshot.AutoBump || b.Revision != d.Revision+snapshot.AutoBump || !b.Watch.Compacted || b.Watch.CompactRevision != b.Revision ||
		b.Watch.Events != 0 || b.Watch.FromRevision != known+1 || b.Watch.FreshEvents != int64(o.Members) {
		t.Errorf("bumped: %+v", b)
	}
	if l := r.Relist; l.Revision != b.Revision+int64(o.Members) || l.Watch.Events != int64(o.Members) || l.Keys != r.Snapshot.Keys {
		t.Errorf("relist: %+v", l)
	}
	if len(r.Proof.Members) != o.Members || r.Proof.HighestSeen != known || len(r.Proof.Leases) != int(r.Snapshot.Leases) || len(r.Proof.Leases) == 0 {
		t.Fatalf("proof: %+v", r.Proof)
	}
	for _, m := range r.Proof.Members {
		if m.Equal != r.Snapshot.Keys || m.Keys != m.Equal || m.EqualLeases != r.Snapshot.Leases || m.Hash != r.Proof.Members[0].Hash || m.CompactRevision != b.Revision {
			t.Errorf("%+v", m)
		}
	}
	for _, l := range r.Proof.Leases {
		if l.TTLSeconds < 3600 || l.LeftSeconds < l.LeftBefore || l.Keys == 0 {
			t.Errorf("%+v", l)
		}
	}
}

// unpacked is another snapshot, that of a real API server.
func unpacked(t *testing.T) []byte {
	t.Helper()
	f, err := os.Open("../../../pkg/ops/dbfile/testdata/real-registry.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Three members lose everything and come back.
func TestRestore(t *testing.T) {
	t.Parallel()
	o := restoreOptions(t, 3, 50)
	r, err := playRestore(t.Context(), t, o)
	if err != nil {
		t.Fatal(err)
	}
	checkRestore(t, o, r)
}

// restoreSabotage is a drill that lacks something, and what is said of it.
type restoreSabotage struct {
	name     string
	sabotage drill.RestoreSabotage
	outcome  drill.Outcome
	want     string
}

func playSabotaged(t *testing.T, cases ...restoreSabotage) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := restoreOptions(t, 1, 20)
			o.Sabotage = tc.sabotage
			r, err := playRestore(t.Context(), t, o)
			if fault.KindOf(err) != fault.Wanting || r.Outcome != tc.outcome || !strings.Contains(strings.Join(r.Missing, "; "), tc.want) {
				t.Errorf("outcome %s, missing %v, error %v", r.Outcome, r.Missing, err)
			}
		})
	}
}

// A drill whose second restore lifts nothing, or whose file is another, is not
// called proved.
func TestRestoreSabotaged_more(t *testing.T) {
	playSabotaged(t,
		restoreSabotage{"no bump", drill.RestoreSabotage{NoBump: true}, drill.NotRemedied, "was not ended as compacted"},
		restoreSabotage{"another file", drill.RestoreSabotage{File: func(path string) error { return os.WriteFile(path, unpacked(t), 0o600) }},
			drill.NotReproduced, "not the one that was saved"},
	)
}

func TestRestoreUsage(t *testing.T) {
	for name, change := range map[string]func(*drill.RestoreOptions){
		"no member":            func(o *drill.RestoreOptions) { o.Members = 0 },
		"six members":          func(o *drill.RestoreOptions) { o.Members = 6 },
		"few writes":           func(o *drill.RestoreOptions) { o.Writes = 9 },
		"many writes":          func(o *drill.RestoreOptions) { o.Writes = 20_001 },
		"a folder that is not": func(o *drill.RestoreOptions) { o.Dir = "/nonexistent" },
	} {
		o := drill.DefaultRestoreOptions()
		o.Command.Path = "/nonexistent"
		change(&o)
		if _, err := drill.Restore(t.Context(), o, progress.Discard); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}
