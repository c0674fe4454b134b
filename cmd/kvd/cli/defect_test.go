package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
)

// A defect ends kvd with 1, and never with Go's own 2, which says that nothing was
// sent.
func TestAPanicIsAnInternalError(t *testing.T) {
	var stderr bytes.Buffer
	a := &App{IO: &IOStreams{Err: &stderr}}
	var none *fault.Error
	err := a.defectsToldApart(func() error { return none.On("defrag", "m1") })
	if fault.KindOf(err) != fault.Internal || codeOf(err, 0) != 1 || fault.HintOf(err) == "" {
		t.Errorf("%v, exit %d", err, codeOf(err, 0))
	}
	for _, want := range []string{"nil pointer", "defect_test.go"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in the trace:\n%s", want, stderr.String())
		}
	}
	failed := errors.New("as it is")
	if got := a.defectsToldApart(func() error { return failed }); !errors.Is(got, failed) {
		t.Errorf("%v", got)
	}
}
