package diagnose_test

import (
	"slices"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/servertest"
)

// TestWhatWasAskedIsCounted: a member that does not tell its status is asked for its
// metrics all the same, where it is said that they are served elsewhere. What it
// took to find out has that request, too.
func TestWhatWasAskedIsCounted(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 0)
	c.Kill(2)
	o := options()
	o.Interval, o.MetricsURLs = 0, []string{c.Name(2) + "=" + c.MetricsURL(2)}
	in, err := diagnose.Collect(servertest.Context(t, time.Minute), connect(t, c), o, discard)
	if err != nil {
		t.Fatal(err)
	}
	if answered := len(in.Now.View.Answered()); answered != 2 {
		t.Fatalf("%d members answered, want 2", answered)
	}
	if want := (diagnose.Asked{What: "GET /metrics", Count: 3}); !slices.Contains(in.Asked, want) {
		t.Errorf("asked %+v, want %+v in it", in.Asked, want)
	}
}
