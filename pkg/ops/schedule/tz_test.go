package schedule

import (
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
)

// A run at night must not become one in the day because Go cannot read TZ.
func TestTZThatGoCannotRead(t *testing.T) {
	for tz, good := range map[string]bool{
		"": true, ":": true, "UTC": true, "Europe/Berlin": true, ":Europe/Berlin": true,
		"Europe/Berln": false, "CET-1CEST": false, "CET-1CEST,M3.5.0,M10.5.0/3": false, "/no/such/file": false,
	} {
		t.Setenv("TZ", tz)
		_, err := Parse(Options{Expr: "30 3 * * *"}, time.Now())
		if (err == nil) != good || (!good && (fault.KindOf(err) != fault.Usage || !strings.Contains(fault.HintOf(err), "--timezone"))) {
			t.Errorf("TZ=%q: %v", tz, err)
		}
		if _, err := Parse(Options{Expr: "30 3 * * *", Timezone: "Europe/Berlin"}, time.Now()); err != nil {
			t.Errorf("TZ=%q with a zone given: %v", tz, err)
		}
	}
}
