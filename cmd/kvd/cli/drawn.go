package cli

import (
	"io"

	"kvd/cmd/kvd/cli/render"
)

// drawn has table draw to w, and returns the first error of writing whatever table
// makes of it, be that nothing or the same again for each of its parts: a result that
// is not there whole is none.
func drawn(w io.Writer, table func(io.Writer) error) error {
	watched := &watchedWriter{to: w}
	if err := table(render.NewSheet(watched)); watched.err == nil {
		return err
	}
	return watched.err
}

// watchedWriter keeps the first error, and writes nothing behind it.
type watchedWriter struct {
	to  io.Writer
	err error
}

func (w *watchedWriter) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	var n int
	n, w.err = w.to.Write(b)
	return n, w.err
}
