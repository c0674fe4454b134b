package ops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// A --before-member command may take its time, and somebody else may begin to
// defragment another member meanwhile: two at once may cost the quorum.
func TestAnotherDefragmentationBeginsDuringBeforeMember(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ran")
	o := fast()
	o.Members, o.BeforeMember = []string{"a"}, "touch "+file
	f := &fakeCluster{view: fakeView(1, three()...)}
	f.metrics = func(id uint64) (string, error) {
		inflight := 0
		if _, err := os.Stat(file); err == nil && id == 3 {
			inflight = 1
		}
		return defragMetrics(inflight, 0, 0, 1), nil
	}
	p, err := newDefragmentation(f, o, progress.Discard).plan(t.Context(), f.view)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), nil, progress.Discard)
	errorsIs(t, err, fault.Refused, "defrag_inflight")
	if len(f.calls) != 0 || r.Steps[0].State != plan.Failed || !strings.Contains(r.Steps[0].Reason, "being defragmented already") ||
		!strings.HasPrefix(fault.HintOf(err), "undo what the command did") {
		t.Errorf("did %v: %+v, hint %q", f.calls, r.Steps[0], fault.HintOf(err))
	}
}
