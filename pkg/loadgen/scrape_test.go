package loadgen

import (
	"slices"
	"testing"
	"time"

	"kvd/pkg/loadgen/result"
)

// A member that says nothing twice in a row is told of once, and again when it is
// back; one that is only late once is not.
func TestSilentMembersAreToldOf(t *testing.T) {
	rec := newRecorder()
	rec.begin(time.Now(), 0)
	s := &scraper{rec: rec}
	m := &target{name: "m1", fresh: true}
	s.hear(m, false) // nothing was ever heard of it
	s.hear(m, false)
	m = &target{name: "m1"}
	for _, answered := range []bool{true, false, true, false, false, false, true, true, false, true} {
		s.hear(m, answered)
	}
	var got []string
	for _, e := range rec.finish(&result.Totals{}) {
		got = append(got, e.What+" "+e.Text)
	}
	if want := []string{"member_silent m1 does not answer", "member_back m1 answers again"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
