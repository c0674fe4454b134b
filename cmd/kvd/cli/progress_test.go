package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"kvd/pkg/ops/progress"
)

// The line that is rewritten fits the terminal, since one that wraps can't be
// rewritten, and is gone before anything else is written beside it.
func TestLiveLine(t *testing.T) {
	for name, next := range map[string]func(*App) error{
		"result": func(app *App) error {
			return app.Print(nil, func(w io.Writer) error { _, err := fmt.Fprint(w, "next"); return err })
		},
		"warning": func(app *App) error { app.warn("next"); return nil },
		"error":   func(app *App) error { app.printError(fmt.Errorf("next")); return nil },
		"stream": func(app *App) error {
			out := bufio.NewWriter(app.IO.Out)
			fmt.Fprintln(out, "next")
			return app.showLine(out)
		},
		"what else reports": func(app *App) error {
			app.Progress().Event(progress.Event{Op: "next", Phase: "looking"})
			return nil
		},
	} {
		var screen bytes.Buffer // stdout and stderr of one terminal
		app := &App{IO: &IOStreams{Out: &screen, Err: &screen, OutIsTerminal: true, ErrIsTerminal: true, ErrColumns: func() int { return 40 }},
			Global: globalFlags{Progress: progressAuto}, interrupts: &interrupts{}}
		app.Progress().Event(progress.Event{Op: "loadgen", Phase: "measuring", Note: "2026 requests/s, p99 12.34ms, max 1m2.345s, 17 waiting → db 1.23 GiB"})
		line := screen.String()
		if n := len([]rune(line)); n != 39 || !strings.HasPrefix(line, "loadgen: measuring: 2026") {
			t.Errorf("%d columns: %q", n, line)
		}
		if err := next(app); err != nil {
			t.Error(err)
		}
		if rest := strings.TrimPrefix(screen.String(), line); !strings.HasPrefix(rest, "\r"+strings.Repeat(" ", 39)+"\r") || !strings.Contains(rest, "next") {
			t.Errorf("%s: %q", name, rest)
		}
	}
}
