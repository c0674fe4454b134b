package cli

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kvd/pkg/ops/fault"
)

// pseudoTerminal returns both ends of a terminal: who types, and the program's.
func pseudoTerminal(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return keyboard, tty
}

// Ctrl-C ends a command that asks for a password, and leaves a terminal that shows
// what is typed.
func TestPassword(t *testing.T) {
	shows := func(tty *os.File) bool {
		now, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return now.Lflag&unix.ECHO != 0
	}
	for name, answer := range map[string]func(*os.File, *interrupts) error{
		"typed":  func(keyboard *os.File, _ *interrupts) error { _, err := keyboard.WriteString("secret\n"); return err },
		"Ctrl-C": func(_ *os.File, in *interrupts) error { in.received(syscall.SIGINT); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			keyboard, tty := pseudoTerminal(t)
			_, in, done := watchSignals(t.Context(), &bytes.Buffer{})
			defer done()
			app, _ := testApp(tty, true, nil)
			app.interrupts = in
			type result struct {
				pw  string
				err error
			}
			got := make(chan result, 1)
			go func() {
				pw, err := app.askPassword("root")
				got <- result{pw, err}
			}()
			for began := time.Now(); shows(tty); time.Sleep(time.Millisecond) {
				if time.Since(began) > 10*time.Second {
					t.Fatal("the terminal still shows what is typed")
				}
			}
			if err := answer(keyboard, in); err != nil {
				t.Fatal(err)
			}
			select {
			case r := <-got:
				if name == "typed" && (r.err != nil || r.pw != "secret") || name == "Ctrl-C" && fault.KindOf(r.err) != fault.Interrupted {
					t.Errorf("%q, %v", r.pw, r.err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it goes on asking")
			}
			if !shows(tty) {
				t.Error("the terminal does not show what is typed any more")
			}
		})
	}
}
