package ops_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
	"kvd/pkg/server/servertest"
)

// snapshotAs saves what a cluster has to a file.
func (p *place) snapshotAs(t *testing.T, path string) {
	t.Helper()
	r, err := p.Client.Snapshot(servertest.Context(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it is read
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A snapshot that is there stands in for a new one only if it has each key just as it
// is: not where one was written since, nor where another timeline of the cluster has
// written other things under the same revisions.
func TestDeleteTakesASnapshotThatHasAll(t *testing.T) {
	t.Parallel()
	build := func(value string) *place {
		p := world{members: 1, quota: 64 * mib}.build(t)
		for _, key := range []string{"/registry/events/a/1", "/registry/events/a/2", "/registry/events/a/3", "/registry/pods/a/p"} {
			if _, err := p.Client.Put(servertest.Context(t, time.Minute), key, value); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	p, dir := build("one"), t.TempDir()
	file, other := filepath.Join(dir, "s.db"), filepath.Join(dir, "other.db")
	p.snapshotAs(t, file)
	build("two").snapshotAs(t, other)
	first := func(file string) plan.StepResult {
		t.Helper()
		pl, err := p.planDelete(t, prefixed("/registry/events/"), func(o *ops.DeleteOptions) {
			o.Snapshot = func(context.Context, cluster.View) (string, error) { return "", nil }
			o.Saved = func(context.Context, cluster.View) (string, error) { return file, nil }
		})
		if err != nil {
			t.Fatal(err)
		}
		return pl.Describe().Steps[0]
	}
	for _, tc := range []struct {
		file  string
		state plan.State
	}{{file, plan.Skipped}, {other, plan.Planned}, {"", plan.Planned}} {
		if got := first(tc.file); got.State != tc.state || got.Action != "save a snapshot" {
			t.Errorf("with %q: %+v, want %s", tc.file, got, tc.state)
		}
	}
	ctx := servertest.Context(t, time.Minute)
	if _, err := p.Client.Delete(ctx, "/registry/events/a/1"); err != nil { // as an interrupted run does
		t.Fatal(err)
	}
	if got := first(file); got.State != plan.Skipped {
		t.Errorf("with one that has more: %+v", got)
	}
	if _, err := p.Client.Put(ctx, "/registry/events/a/3", "again"); err != nil {
		t.Fatal(err)
	}
	if got := first(file); got.State != plan.Planned {
		t.Errorf("with one that has an older value: %+v", got)
	}
}
