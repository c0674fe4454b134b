package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// The values of --progress.
const (
	progressAuto  = "auto"
	progressPlain = "plain"
	progressJSON  = "json"
	progressNone  = "none"
)

func checkProgressMode(mode string) error {
	switch mode {
	case progressAuto, progressPlain, progressJSON, progressNone:
		return nil
	}
	return &fault.Error{Kind: fault.Usage, Cause: "flag",
		Msg: fmt.Sprintf("--progress %q: want auto, plain, json or none", mode)}
}

// plainEvery is how often a phase that goes on is repeated where there is no
// terminal to rewrite a line on.
const plainEvery = 10 * time.Second

// redrawEvery keeps a terminal line readable and the terminal idle.
const redrawEvery = 100 * time.Millisecond

// Progress returns the sink that shows a library's events to the user.
func (a *App) Progress() progress.Sink {
	sink := a.progressSink()
	return progress.Func(func(e progress.Event) {
		if going := e.State == "" || e.State == "started"; going && a.interrupts.stopping() {
			e.Note = strings.TrimPrefix(e.Note+"; stops after this step", "; ")
		}
		sink.Event(e)
	})
}

func (a *App) progressSink() progress.Sink {
	mode := a.Global.Progress
	if mode == progressAuto && !a.IO.ErrIsTerminal {
		mode = progressPlain
	}
	switch mode {
	case progressNone:
		return progress.Func(func(e progress.Event) {
			if e.Warning {
				a.warn("%s", e.Note)
			}
		})
	case progressJSON:
		enc, mu := render.NewEncoder(a.IO.Err), &sync.Mutex{}
		return progress.Func(func(e progress.Event) {
			mu.Lock()
			defer mu.Unlock()
			_ = enc.Encode(e)
		})
	case progressPlain:
		return &lineSink{w: a.IO.Err, every: plainEvery, now: time.Now}
	default:
		if sink := a.live.Load(); sink != nil {
			return sink // a terminal has one line of it, whoever reports
		}
		sink := &lineSink{w: a.IO.Err, every: redrawEvery, now: time.Now, rewrite: true, columns: a.IO.ErrColumns}
		a.live.Store(sink)
		return sink
	}
}

// lineSink shows one line per event: rewritten in place on a terminal, else one
// per phase and at most one per interval while a phase goes on.
type lineSink struct {
	w       io.Writer
	every   time.Duration
	rewrite bool
	now     func() time.Time
	columns func() int // of the terminal; nil or 0: not known

	mu       sync.Mutex
	phase    string // what the last line was about
	began    time.Time
	lastLine time.Time
	width    int // of the line that stands on the terminal now
}

// Event implements progress.Sink.
func (s *lineSink) Event(e progress.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	phase := e.Op + "\x00" + e.Subject + "\x00" + e.Phase + "\x00" + e.State
	fresh := phase != s.phase
	if fresh {
		s.phase, s.began = phase, now
	} else if now.Sub(s.lastLine) < s.every && !e.Warning {
		return
	}
	s.lastLine = now
	s.show(e, now.Sub(s.began))
}

func (s *lineSink) show(e progress.Event, elapsed time.Duration) {
	line := render.Safe(describe(e, elapsed))
	keep := e.Warning || (e.State != "" && e.State != "started")
	if !s.rewrite {
		fmt.Fprintln(s.w, line)
		return
	}
	s.clear()
	if !keep {
		line = s.fit(line)
	}
	fmt.Fprint(s.w, line)
	s.width = utf8.RuneCountInString(line)
	if keep {
		fmt.Fprintln(s.w)
		s.width = 0
	}
}

func (s *lineSink) clear() {
	if s.width > 0 {
		fmt.Fprintf(s.w, "\r%s\r", strings.Repeat(" ", s.width))
		s.width = 0
	}
}

// fit cuts a line to one less than the terminal has columns: one that wraps can't be
// rewritten.
func (s *lineSink) fit(line string) string {
	if s.columns == nil {
		return line
	}
	runes := []rune(line)
	if columns := s.columns(); columns > 1 && len(runes) > columns-1 {
		return string(runes[:columns-1])
	}
	return line
}

// settle takes the line that stands on the terminal away.
func (s *lineSink) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
}

// describe puts an event into words.
func describe(e progress.Event, elapsed time.Duration) string {
	parts := []string{e.Op, e.Subject, e.Phase}
	if e.Warning {
		parts = slices.Insert(parts, 0, "warning")
	}
	if e.Total > 0 || e.Done > 0 {
		parts = append(parts, amount(e, elapsed))
	}
	if e.State != "started" {
		parts = append(parts, e.State)
	}
	parts = append(parts, e.Note)
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ": ")
}

func amount(e progress.Event, elapsed time.Duration) string {
	show := func(n int64) string {
		if e.Unit == "bytes" {
			return humanize.IBytes(uint64(max(n, 0)))
		}
		return humanize.Comma(n)
	}
	out := show(e.Done)
	if e.Total > 0 {
		out += " of " + show(e.Total)
	}
	if e.Unit != "" && e.Unit != "bytes" {
		out += " " + e.Unit
	}
	if elapsed > time.Second && e.Done > 0 && e.Unit != "seconds" {
		rate := float64(e.Done) / elapsed.Seconds()
		out += fmt.Sprintf(" (%s/s", show(int64(rate)))
		if left := e.Total - e.Done; e.Total > 0 && left > 0 && rate > 0 {
			out += fmt.Sprintf(", %s left", (time.Duration(float64(left) / rate * float64(time.Second))).Round(time.Second))
		}
		out += ")"
	}
	return out
}
