package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A result that could not be written is no success, whatever the command is and in
// whichever form it was asked for.
func TestResultThatCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{
		{"version"}, {"config", "view"}, {"diagnose", "--explain"}, {"diagnose", "--alerts"}, {"diagnose", "--alerts", "-o", "json"},
		{"diagnose", "--disk", t.TempDir(), "--markdown", "--fail-on", "none"}, {"diagnose", "--disk", t.TempDir(), "-o", "yaml", "--fail-on", "none"},
	} {
		app, said := testApp(nil, false, map[string]string{"XDG_CONFIG_HOME": t.TempDir()})
		app.IO.Out = fullDisk{}
		if code := app.Run(t.Context(), args); code == 0 || strings.Count(said.String(), syscall.ENOSPC.Error()) != 1 {
			t.Errorf("kvd %s: exit code %d, %s", strings.Join(args, " "), code, said)
		}
	}
}

// Several tables that can't be written are one error.
func TestResultOfSeveralTablesThatCannotBeWritten(t *testing.T) {
	err := drawn(fullDisk{}, func(w io.Writer) error {
		_, first := io.WriteString(w, "A\n")
		_, second := io.WriteString(w, "B\n")
		return errors.Join(first, second)
	})
	if err != error(syscall.ENOSPC) { //nolint:errorlint // it is to be this one, and nothing around it
		t.Errorf("%v", err)
	}
}
