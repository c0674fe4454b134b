package cli

import (
	"bufio"
	"fmt"
	"os"
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

// The log of a container is a pipe, which cannot be put on disk: the report is there
// all the same.
func TestAReportIntoAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	defer w.Close() //nolint:errcheck // see there
	for _, path := range []string{fmt.Sprintf("/proc/self/fd/%d", w.Fd()), os.DevNull} {
		out, err := openReport(path)
		if err != nil {
			t.Skip(err)
		}
		if err := out.append(map[string]int{"a": 1}, ""); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if line, err := bufio.NewReader(r).ReadString('\n'); line != `{"a":1}`+"\n" {
		t.Errorf("%q, %v", line, err)
	}
}
