package cli

import (
	"bytes"
	"strings"
	"testing"

	"kvd/pkg/loadgen/result"
)

// A run that ended before its time is not taken for a whole one, also not when it is
// read from its file a week later.
func TestTableOfARunThatWasStopped(t *testing.T) {
	for why, said := range map[string]bool{"": false, result.StoppedByHand: true, result.StoppedFailed: true} {
		var b bytes.Buffer
		r := &result.Run{Totals: result.Totals{Measured: 3.6, Stopped: why}}
		if err := drawLoad(&b, result.NewReport(r, nil, false)); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "before its time, after 3.6s") != said {
			t.Errorf("%q: %s", why, b.String())
		}
	}
}

// A member that tells no metrics is not left out without a word.
func TestTableWithoutMetrics(t *testing.T) {
	var b bytes.Buffer
	r := &result.Run{Header: result.Header{Members: []result.Member{{Name: "m1", Version: "3.7.3"}, {Name: "m2", Version: "3.7.3"}, {Name: "m3"}, {}}}, Totals: result.Totals{Servers: []result.MemberTotals{{Name: "m1"}}}}
	if err := drawLoad(&b, result.NewReport(r, nil, false)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "no metrics of m2:") || !strings.Contains(b.String(), "\nm3 did not answer") {
		t.Error(b.String())
	}
}
