package cli

import (
	"testing"

	"kvd/pkg/ops/fault"
)

// A report on a full disk is no defect of kvd, and doesn't hide how the run ended.
func TestAReportThatCannotBeWritten(t *testing.T) {
	for ended, want := range map[fault.Kind]fault.Kind{"": fault.Partial, fault.Refused: fault.Refused, fault.Unavailable: fault.Unavailable} {
		out, err := openReport("/dev/full")
		if err != nil {
			t.Skip(err)
		}
		if err := out.append(1, ended); fault.KindOf(err) != want || fault.CauseOf(err) != "report_file" || fault.HintOf(err) == "" {
			t.Errorf("after %q: %v (%s)", ended, err, fault.KindOf(err))
		}
	}
}
