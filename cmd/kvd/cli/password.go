package cli

import (
	"fmt"
	"os"

	"golang.org/x/term"

	"kvd/pkg/ops/fault"
)

// askPassword asks on the terminal, without showing what is typed.
func (a *App) askPassword(user string) (string, error) {
	in, ok := a.IO.In.(*os.File)
	if !a.IO.canAsk() || !ok {
		return "", &fault.Error{Kind: fault.Usage, Cause: "password_missing", Msg: fmt.Sprintf("user %s has no password, and there is no terminal to ask on", user),
			Hint: "give --password-file, KVD_PASSWORD, or --user NAME:PASSWORD"}
	}
	fmt.Fprintf(a.IO.Err, "password of %s: ", user)
	pw, err := readPassword(in, a.interrupts.ended)
	fmt.Fprintln(a.IO.Err)
	if err != nil && fault.KindOf(err) != fault.Interrupted {
		err = &fault.Error{Kind: fault.Usage, Cause: "password_missing", Msg: "the password could not be read", Err: err}
	}
	return pw, err
}

// readPassword reads a line that the terminal does not show, until the command is to
// end. A read from a terminal cannot be ended; it ends with the process, and what
// the terminal shows from then on is put back here.
func readPassword(in *os.File, ended <-chan struct{}) (string, error) {
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	type line struct {
		text []byte
		err  error
	}
	typed := make(chan line, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		typed <- line{text, err}
	}()
	select {
	case l := <-typed:
		return string(l.text), l.err
	case <-ended:
		_ = term.Restore(fd, before) // there is nobody left to tell
		return "", &fault.Error{Kind: fault.Interrupted, Msg: "interrupted before a password was given"}
	}
}
