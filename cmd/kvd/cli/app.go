// Package cli is kvd's command line: one file per command, and the few things
// that all commands share. It is the only place that knows about flags,
// terminals and exit codes.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/fault"
)

// App is what every command is given: where to read and write, the environment,
// and the flags that all commands share.
type App struct {
	IO      *IOStreams
	Getenv  func(string) string
	Environ func() []string
	Root    string // where discovery looks for /etc and /var; "" outside tests
	Global  globalFlags

	interrupts *interrupts
	live       atomic.Pointer[lineSink] // what rewrites a line on the terminal
}

// settle takes the line of progress off the terminal, so that what follows begins
// on a line of its own.
func (a *App) settle() {
	if s := a.live.Load(); s != nil {
		s.settle()
	}
}

// showLine has a stream's line appear at once on a terminal, in place of the line of
// progress. Elsewhere it waits for the buffer to be full.
func (a *App) showLine(out *bufio.Writer) error {
	if !a.IO.OutIsTerminal {
		return nil
	}
	a.settle()
	return out.Flush()
}

// globalFlags are understood by every command but serve.
type globalFlags struct {
	Output     render.Format
	Progress   string // auto, plain, json, none
	ConfigFile string
}

// Main runs kvd with the process's own arguments and streams and returns the
// exit code.
func Main() int {
	app := &App{IO: systemStreams(), Getenv: os.Getenv, Environ: os.Environ, Global: defaultGlobalFlags()}
	return app.Run(context.Background(), os.Args[1:])
}

// Run executes one command line and returns its exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	ctx, in, done := watchSignals(ctx, a.IO.Err)
	defer done()
	a.interrupts = in

	root := newRootCmd(a, wanted(args))
	root.SetArgs(args)
	err := withoutBrokenPipes(root.ExecuteContext(ctx))
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && in.signal() != 0 && fault.KindOf(err) != fault.Interrupted {
		e := &fault.Error{Kind: fault.Interrupted, Msg: "interrupted", Err: err}
		if errors.Is(err, context.Canceled) {
			e.Err = nil // says nothing that the signal has not said
		}
		err = e
	}
	if fault.KindOf(err) == fault.Usage && a.Global.Output == render.Table && len(args) > 0 && args[0] != "serve" { // whose -o is its own
		a.Global.Output = askedOutput(args, a.Getenv)
	}
	a.printError(err)
	return codeOf(err, in.signal())
}

// withoutBrokenPipes drops the errors that only say that whoever read our output
// has left, which is their right: `kvd status | head -1` is not an error. What
// else went wrong stays.
func withoutBrokenPipes(err error) error {
	if !isBrokenPipe(err) {
		return err
	}
	var left []error
	for _, e := range flatten(err) {
		if !isBrokenPipe(e) {
			left = append(left, e)
		}
	}
	return errors.Join(left...)
}

func isBrokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// errorBody is the JSON form of an error on stderr.
type errorBody struct {
	Kind     fault.Kind `json:"kind"`
	Cause    string     `json:"cause,omitempty"`
	Message  string     `json:"message"`
	Hint     string     `json:"hint,omitempty"`
	ExitCode int        `json:"exit_code"`
}

func (a *App) printError(err error) {
	a.settle()
	if a.Global.Output == render.JSON {
		body := errorBody{
			Kind: fault.KindOf(err), Cause: fault.CauseOf(err), Message: err.Error(),
			Hint: fault.HintOf(err), ExitCode: codeOf(err, a.interrupts.signal()),
		}
		_ = render.NewEncoder(a.IO.Err).Encode(map[string]errorBody{"error": body})
		return
	}
	for _, e := range flatten(err) {
		fmt.Fprintf(a.IO.Err, "kvd: %s\n", render.Safe(e.Error()))
		if hint := fault.HintOf(e); hint != "" {
			fmt.Fprintf(a.IO.Err, "hint: %s\n", render.Safe(hint))
		}
	}
}

// flatten lists the errors of a join, each of which gets its own line and hint.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // only a join at the top is split
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}

// Print writes a result to stdout in the format that was asked for: v as JSON
// or YAML, or what table draws.
func (a *App) Print(v any, table func(io.Writer) error) error {
	a.settle()
	switch a.Global.Output {
	case render.JSON:
		return render.WriteJSON(a.IO.Out, v)
	case render.YAML:
		return render.WriteYAML(a.IO.Out, v)
	default:
		return drawn(a.IO.Out, table)
	}
}

// printBeside is Print to stderr, because stdout has what was asked for: JSON in one
// line, as errors are, to be told from the progress that is there as well.
func (a *App) printBeside(v any, table func(io.Writer) error) error {
	a.settle()
	switch a.Global.Output {
	case render.JSON:
		return render.NewEncoder(a.IO.Err).Encode(v)
	case render.YAML:
		return render.WriteYAML(a.IO.Err, v)
	default:
		return drawn(a.IO.Err, table)
	}
}

// warn tells the user something that is not part of the result.
func (a *App) warn(format string, args ...any) {
	a.settle()
	fmt.Fprintf(a.IO.Err, "warning: %s\n", render.Safe(fmt.Sprintf(format, args...)))
}
