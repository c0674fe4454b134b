package drill_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// options are a drill's, in a folder of the test and without fsync: nothing here
// is about the disk.
func options(t *testing.T, members int, quota int64, remedy string) drill.Options {
	t.Helper()
	o := drill.DefaultOptions()
	o.Members, o.QuotaBytes, o.Remedy, o.Dir = members, quota, remedy, t.TempDir()
	o.Command = local.Command{Path: servertest.Binary(t), Args: []string{"serve", "--unsafe-no-fsync"}}
	return o
}

// play runs a drill and checks that nothing is left of it.
func play(ctx context.Context, t *testing.T, o drill.Options) (drill.Report, error) {
	t.Helper()
	r, err := drill.Nospace(ctx, o, progress.Discard)
	if raw, merr := json.MarshalIndent(r, "", " "); merr != nil {
		t.Errorf("the report has no JSON form: %v", merr)
	} else {
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%v\n%s", err, raw)
			}
		})
	}
	nothingLeft(t, o.Dir)
	return r, err
}

func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("left behind: %s", filepath.Join(dir, e.Name()))
	}
	for _, line := range processesNaming(t, dir) {
		t.Errorf("a process is left: %s", line)
	}
}

// processesNaming lists the command lines that name a folder.
func processesNaming(t *testing.T, dir string) []string {
	t.Helper()
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("needs /proc")
	}
	var found []string
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // has ended since
		}
		if strings.Contains(string(raw), "--data-dir="+dir+"/") {
			found = append(found, strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	return found
}

// checkFull asserts what must be so before any remedy, with the numbers.
func checkFull(t *testing.T, o drill.Options, r drill.Report) {
	t.Helper()
	if len(r.Endpoints) != o.Members || r.Members != o.Members || r.QuotaBytes != o.QuotaBytes {
		t.Errorf("%d endpoints, %d members, quota %d", len(r.Endpoints), r.Members, r.QuotaBytes)
	}
	var writes, bytes int64
	for _, w := range r.Written {
		writes += w.Writes
		bytes += w.Bytes
		if w.Writes < w.Objects || w.Objects == 0 {
			t.Errorf("%d writes of %d %s", w.Writes, w.Objects, w.Resource)
		}
	}
	if writes != r.WritesUntilFull || bytes != r.BytesUntilFull {
		t.Errorf("the sums of what was written, %d and %d, are not the totals %d and %d", writes, bytes, r.WritesUntilFull, r.BytesUntilFull)
	}
	full, ok := r.SizesAt(drill.AtFull)
	if !ok || len(full.Members) != o.Members {
		t.Fatalf("sizes when full: %+v", full)
	}
	var largest int64 // can be far above the quota: etcd counts up to its last commit
	for _, m := range full.Members {
		largest = max(largest, m.DBSize)
		if m.Quota != o.QuotaBytes || float64(m.DBSize) < 0.95*float64(o.QuotaBytes) || m.DBInUse > m.DBSize {
			t.Errorf("%s when full: %d of %d, in use %d", m.Name, m.DBSize, m.Quota, m.DBInUse)
		}
	}
	if bytes < o.QuotaBytes/2 || bytes > largest {
		t.Errorf("%d bytes of keys and values filled a quota of %d, and files of %d", bytes, o.QuotaBytes, largest)
	}
	if len(r.Refused) != o.Members {
		t.Fatalf("%d attempts", len(r.Refused))
	}
	const etcdSays = "etcdserver: mvcc: database space exceeded"
	for _, a := range r.Refused {
		if a.Cause != cluster.CauseNoSpace || a.Error != etcdSays || a.Revision != 0 {
			t.Errorf("the attempt through %s: %+v", a.Member, a)
		}
	}
	if r.RefusedWriteError != etcdSays || r.Compactor.Error != etcdSays {
		t.Errorf("first refusal %q, compactor %q", r.RefusedWriteError, r.Compactor.Error)
	}
	if c := r.Compactor; c.CompactedTo <= 0 || c.NextRev <= c.CompactedTo {
		t.Errorf("the compactor: %+v", c)
	}
	if len(r.Alarms) == 0 || r.Alarms[0].Type != cluster.AlarmNoSpace {
		t.Errorf("alarms %+v", r.Alarms)
	}
	if d := r.Diagnosis; d.HistoryRatio < 0.5 || d.HistoryRatio > 0.95 || d.LiveKeys < 100 || d.Oldest != r.Compactor.CompactedTo ||
		d.LiveBytes+d.HistoryBytes != d.InUseBytes || d.EffectiveQuota != o.QuotaBytes {
		t.Errorf("diagnosis %+v", d)
	}
}

// checkProved asserts what must be so after a remedy.
func checkProved(t *testing.T, o drill.Options, r drill.Report) {
	t.Helper()
	if r.Outcome != drill.Proved || len(r.Missing) != 0 {
		t.Errorf("outcome %s, missing %v", r.Outcome, r.Missing)
	}
	if len(r.Proof.Writes) != o.Members {
		t.Fatalf("%d writes prove it", len(r.Proof.Writes))
	}
	head := r.Diagnosis.Head
	for _, a := range r.Proof.Writes {
		if a.Revision <= head {
			t.Errorf("the write through %s is at revision %d, the one before at %d", a.Member, a.Revision, head)
		}
		head = a.Revision
	}
	if r.Proof.Revision != head || len(r.Proof.Alarms) != 0 || r.Proof.CompactorNext != r.Compactor.NextRev || r.Proof.TookSeconds <= 0 {
		t.Errorf("proof %+v", r.Proof)
	}
	if r.CleanedUp == nil || r.CleanedUp.Processes != o.Members {
		t.Errorf("cleaned up: %+v", r.CleanedUp)
	}
}

// A quota that is raised changes nothing until the alarm is disarmed.
func TestRaiseQuota(t *testing.T)      { raisesQuota(t, size{1, 4 << 20}) }
func TestRaiseQuota_more(t *testing.T) { raisesQuota(t, size{1, 7 << 20}, size{2, 5 << 20}) }

func raisesQuota(t *testing.T, sizes ...size) {
	for _, tc := range sizes {
		t.Run(fmt.Sprintf("%d members, %d MiB", tc.members, tc.quota>>20), func(t *testing.T) {
			t.Parallel()
			o := options(t, tc.members, tc.quota, drill.RemedyRaiseQuota)
			r, err := play(t.Context(), t, o)
			if err != nil {
				t.Fatal(err)
			}
			checkFull(t, o, r)
			checkProved(t, o, r)
			if len(r.Restarts) != tc.members || r.Restarts[tc.members-1].Role != cluster.RoleLeader || r.RaisedQuota != 4*tc.quota {
				t.Errorf("restarts %+v", r.Restarts)
			}
			after, _ := r.SizesAt(drill.AfterRestart)
			for _, m := range after.Members {
				if m.Quota != 4*tc.quota || m.DBSize >= m.Quota/2 {
					t.Errorf("%s has %d of a quota of %d", m.Name, m.DBSize, m.Quota)
				}
			}
			if len(r.StillSaid) != tc.members || len(r.StillAlarms) == 0 {
				t.Fatalf("after the restart: %+v, alarms %+v", r.StillSaid, r.StillAlarms)
			}
			for _, a := range r.StillSaid {
				if a.Cause != cluster.CauseNoSpace {
					t.Errorf("after the restart, through %s: %+v", a.Member, a)
				}
			}
			if len(r.Disarm.Steps) != len(r.StillAlarms) || r.Disarm.Outcome != plan.OutcomeDone {
				t.Errorf("disarm: %+v", r.Disarm)
			}
		})
	}
}

// What is told of a phase is not changed later, so that text written as the
// drill goes on and the report at its end cannot contradict each other.
func TestToldIsReported_more(t *testing.T) {
	t.Parallel()
	o := options(t, 1, 4<<20, drill.RemedyRecover)
	told := map[drill.Phase]map[string]any{}
	var order []drill.Phase
	o.Told = func(r drill.Report, p drill.Phase) {
		told[p] = fields(t, r)
		order = append(order, p)
	}
	r, err := play(t.Context(), t, o)
	if err != nil {
		t.Fatal(err)
	}
	if want := []drill.Phase{drill.PhaseReproduce, drill.PhaseDiagnose, drill.PhaseRemedy, drill.PhaseProve, drill.PhaseEnd}; !reflect.DeepEqual(order, want) {
		t.Errorf("told in the order %v", order)
	}
	final := fields(t, r)
	for phase, seen := range told {
		for name, value := range seen {
			list, isList := value.([]any)
			switch later := final[name].(type) {
			case []any: // may grow
				if isList && (len(later) < len(list) || !reflect.DeepEqual(list, later[:len(list)])) {
					t.Errorf("%s, told after %s, was changed", name, phase)
				}
			default:
				if !empty(value) && !reflect.DeepEqual(value, later) {
					t.Errorf("%s, told after %s as %v, is %v in the end", name, phase, value, later)
				}
			}
		}
	}
}

func fields(t *testing.T, r drill.Report) map[string]any {
	t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// empty reports a value that nothing has been said with yet.
func empty(v any) bool {
	switch x := v.(type) {
	case map[string]any:
		for _, f := range x {
			if !empty(f) {
				return false
			}
		}
		return true
	case []any:
		return len(x) == 0
	case string:
		return x == "" || x == "compact_rev_key"
	case float64:
		return x == 0
	}
	return v == nil
}

// A drill that is interrupted, at whatever point, leaves nothing behind.
func TestInterrupted_more(t *testing.T) {
	for _, at := range []struct {
		name  string
		phase string // of the progress event upon which it is interrupted
	}{{"start", "starting 2 members"}, {"remedy", "defragment"}} {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			o := options(t, 2, 4<<20, drill.RemedyRecover)
			o.Keep = true // which is for drills that came to a verdict
			seen := false
			r, err := drill.Nospace(ctx, o, progress.Func(func(e progress.Event) {
				if e.Phase == at.phase {
					seen = true
					cancel()
				}
			}))
			nothingLeft(t, o.Dir)
			if !seen || fault.KindOf(err) != fault.Interrupted || r.Outcome != drill.Interrupted || r.Kept != nil {
				t.Errorf("interrupted at %s (%v): outcome %s, kept %+v, error %v", at.name, seen, r.Outcome, r.Kept, err)
			}
		})
	}
}

// A drill whose members cannot be started says why and leaves nothing.
func TestNoStart(t *testing.T) {
	o := options(t, 3, 4<<20, drill.RemedyRecover)
	o.Command.Args = []string{"serve", "--no-such-flag"}
	r, err := play(t.Context(), t, o)
	if fault.KindOf(err) != fault.Unavailable || r.Outcome != drill.Failed || !strings.Contains(err.Error(), "no-such-flag") || strings.Contains(fault.HintOf(err), o.Dir) {
		t.Errorf("outcome %s, error %v, hint %q", r.Outcome, err, fault.HintOf(err))
	}
}

func TestUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*drill.Options){
		"no member":        func(o *drill.Options) { o.Members = 0 },
		"six members":      func(o *drill.Options) { o.Members = 6 },
		"quota too small":  func(o *drill.Options) { o.QuotaBytes = 1 << 20 },
		"quota too large":  func(o *drill.Options) { o.QuotaBytes = 8 << 30 },
		"quota of nothing": func(o *drill.Options) { o.QuotaBytes = -1 },
		"no such remedy":   func(o *drill.Options) { o.Remedy = "hope" },
		"no such folder":   func(o *drill.Options) { o.Dir = file + "/nowhere" },
		"a file":           func(o *drill.Options) { o.Dir = file },
	} {
		o := drill.DefaultOptions()
		o.Command.Path = "/nonexistent"
		change(&o)
		if _, err := drill.Nospace(t.Context(), o, progress.Discard); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// endKept ends a kept cluster by its PIDs.
func endKept(t *testing.T, k *drill.Kept) {
	t.Helper()
	if len(processesNaming(t, k.Dir)) == 0 {
		return
	}
	var errs []error
	for _, pid := range k.PIDs {
		if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for len(processesNaming(t, k.Dir)) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if err := errors.Join(append(errs, os.RemoveAll(k.Dir))...); err != nil {
		t.Errorf("ending the kept cluster: %v", err)
	}
}
