package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// IOStreams is where a command reads and writes, and what stands behind each
// end. Commands never touch os.Stdin and the others, so that tests can look on.
type IOStreams struct {
	In  io.Reader
	Out io.Writer // the result and nothing else
	Err io.Writer // progress, warnings, prompts, errors

	InIsTerminal  bool
	OutIsTerminal bool
	ErrIsTerminal bool

	OutIsClosed bool

	ErrColumns func() int // how wide the terminal behind Err is now; nil or 0: not known
}

func systemStreams() *IOStreams {
	return &IOStreams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InIsTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutIsTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrIsTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		OutIsClosed:   wasClosed(os.Stdout),
		ErrColumns: func() int {
			columns, _, err := term.GetSize(int(os.Stderr.Fd()))
			if err != nil {
				return 0
			}
			return columns
		},
	}
}

// canAsk reports whether a person can be asked: the question goes to stderr and
// the answer comes from stdin, so stdout may well be a pipe.
func (s *IOStreams) canAsk() bool { return s.InIsTerminal && s.ErrIsTerminal }

// wasClosed reports that a stream was closed when the program began: Go then opens
// /dev/null in its place, for reading and writing (runtime, checkfds), as nobody
// does who only wants to be rid of what is written.
func wasClosed(f *os.File) bool {
	null, err := os.Stat(os.DevNull)
	info, serr := f.Stat()
	if err != nil || serr != nil || !os.SameFile(null, info) {
		return false
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}
