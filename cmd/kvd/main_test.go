package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
)

// A defect ends kvd with 1, and never with Go's own 2, which says that nothing was
// sent.
func TestAPanicIsADefect(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = w
	var none *fault.Error
	code := seen(func() int { return len(none.On("defrag", "m1").Op) })
	os.Stderr = stderr
	_ = w.Close() // a pipe
	said, err := io.ReadAll(r)
	if err != nil || code != 1 {
		t.Errorf("exit %d, %v", code, err)
	}
	for _, want := range []string{"nil pointer", "main_test.go", "a defect in kvd", "kvd status"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("no %q in the trace:\n%s", want, said)
		}
	}
	if code := seen(func() int { return 5 }); code != 5 {
		t.Errorf("exit %d, want it as it is", code)
	}
}
