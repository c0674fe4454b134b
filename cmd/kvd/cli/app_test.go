package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"kvd/pkg/ops/fault"
)

// A reader who leaves is no error; what else went wrong is not hidden by that.
func TestBrokenPipes(t *testing.T) {
	pipe := &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
	failed := fault.New(fault.Partial, "half-way")
	for _, tc := range []struct {
		err  error
		want fault.Kind
	}{
		{nil, ""},
		{pipe, ""},
		{fmt.Errorf("print: %w", io.ErrClosedPipe), ""},
		{errors.Join(nil, pipe), ""},
		{errors.Join(failed, pipe), fault.Partial},
		{errors.Join(pipe, errors.Join(failed, nil)), fault.Partial},
		{failed, fault.Partial},
	} {
		if got := fault.KindOf(withoutBrokenPipes(tc.err)); got != tc.want {
			t.Errorf("%v: kind %q, want %q", tc.err, got, tc.want)
		}
	}
}
