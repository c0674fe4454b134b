//go:build long

package ops_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A member that is asked and has not heard of the newcomer yet does not mean that
// somebody has removed it.
func TestANewcomerThatTheMemberAskedHasNotHeardOf(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 4, Cuttable: true, Args: []string{"--unsafe-no-fsync"}}})
	asked := (c.Leader(t) + 1) % 4
	kvd, err := cluster.Connect(cluster.Config{Endpoints: []string{c.Endpoint(asked)}, Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer kvd.Close() //nolint:errcheck // only read
	ctx := servertest.Context(t, 2*time.Minute)
	view, err := kvd.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o := ops.DefaultAddOptions()
	o.Name, o.PeerURLs, o.Timeout = "m9", []string{"http://127.0.0.1:1"}, 5*time.Second
	p, err := ops.PlanMemberAdd(kvd, view, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	guard := p.Steps[0].Guard
	p.Steps[0].Guard = func(ctx context.Context) error {
		if err := guard(ctx); err != nil {
			return err
		}
		return c.Cut(asked)
	}
	_, err = p.Run(ctx, nil, progress.Discard)
	if fault.KindOf(err) != fault.Partial || fault.CauseOf(err) != cluster.CauseNotStarted || strings.Contains(err.Error(), "removed it") {
		t.Errorf("cause %q: %v", fault.CauseOf(err), err)
	}
	c.Mend()
}
