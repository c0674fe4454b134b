// Package fault is the one error type that kvd shows to people: what failed, on
// what, why, and what to do next. It imports the standard library only, so that
// every other package can use it.
package fault

import (
	"errors"
	"slices"
	"strings"
)

// Kind says what an error means for whoever called kvd. The command line maps
// each kind to one exit code; libraries never deal in exit codes.
type Kind string

// The kinds, in the words of the exit-code table (docs/exit-codes.md).
const (
	Internal     Kind = "internal"     // a defect in kvd or a failure nobody foresaw
	Usage        Kind = "usage"        // the call is wrong; nothing was sent
	Wanting      Kind = "wanting"      // judged, and found wanting
	Unavailable  Kind = "unavailable"  // no endpoint, no quorum, deadline
	Refused      Kind = "refused"      // a guard said no, or nobody confirmed; nothing changed
	Partial      Kind = "partial"      // some of it was done, or some could not be read
	Damage       Kind = "damage"       // damaged data stopped a command that had another job
	Denied       Kind = "denied"       // authentication, certificate, role
	Inconclusive Kind = "inconclusive" // could not tell
	Interrupted  Kind = "interrupted"  // ended by a signal
)

// precedence orders kinds for joined errors: the first that is present names
// the whole. Damage outranks everything, a usage mistake is outranked by all.
var precedence = [...]Kind{
	Interrupted, Damage, Partial, Internal, Denied, Unavailable, Refused, Wanting, Inconclusive, Usage,
}

// Error is an error for people. Every field but Kind may be empty.
type Error struct {
	Kind    Kind
	Cause   string // stable machine-readable cause, for example "connection_refused"
	Op      string // what was being done: "defrag"
	Subject string // to what: "m2 (8e9e05c52164694d)"
	Msg     string // why it failed, in a sentence without a capital or a full stop
	Hint    string // what to do next
	Err     error  // the cause, if another error is behind it
}

// Error renders "op subject: message: cause"; a refusal says that it is one.
func (e *Error) Error() string {
	parts := make([]string, 0, 4)
	if what := strings.TrimSpace(e.Op + " " + e.Subject); what != "" {
		parts = append(parts, what)
	}
	if e.Kind == Refused && e.Op != "" {
		parts = append(parts, "refused")
	}
	if e.Msg != "" {
		parts = append(parts, e.Msg)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	if len(parts) == 0 {
		return string(e.Kind)
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the error behind this one.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error of the given kind with a message.
func New(kind Kind, msg string) *Error { return &Error{Kind: kind, Msg: msg} }

// WithHint returns a copy of e with the hint set.
func (e *Error) WithHint(hint string) *Error {
	c := *e
	c.Hint = hint
	return &c
}

// On returns a copy of e with operation and subject set.
func (e *Error) On(op, subject string) *Error {
	c := *e
	c.Op, c.Subject = op, subject
	return &c
}

// KindOf returns the kind of err: its own, or that of the outermost *Error it
// wraps; for joined errors the kind that ranks first. An error of no kind is
// Internal, and nil is the empty kind.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	found := kinds(err, map[Kind]bool{})
	for _, k := range precedence {
		if found[k] {
			return k
		}
	}
	return Internal
}

// kinds collects the outermost kind of each branch of a tree of joined errors.
func kinds(err error, into map[Kind]bool) map[Kind]bool {
	switch e := err.(type) { //nolint:errorlint // the tree is walked by hand
	case nil:
	case *Error:
		into[e.Kind] = true
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			kinds(sub, into)
		}
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		if inner == nil {
			into[Internal] = true
			break
		}
		kinds(inner, into)
	default:
		into[Internal] = true
	}
	return into
}

// Why returns what went wrong without saying again what was being done, for
// places where that stands beside it. Of joined errors it has all, what several
// say alike once.
func Why(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the tree is walked by hand
		var said []string
		for _, sub := range joined.Unwrap() {
			if why := Why(sub); !slices.Contains(said, why) {
				said = append(said, why)
			}
		}
		return strings.Join(said, "; ")
	}
	if err != error(e) { //nolint:errorlint // is there something around it?
		return Why(errors.Unwrap(err))
	}
	switch {
	case e.Err == nil:
		return e.Msg
	case e.Msg == "":
		return Why(e.Err)
	}
	return e.Msg + ": " + Why(e.Err)
}

// HintOf returns the hint of the outermost *Error in err that has one, of joined
// errors that of the first.
func HintOf(err error) string { return first(err, func(e *Error) string { return e.Hint }) }

// CauseOf returns the machine-readable cause of the outermost *Error in err
// that has one, of joined errors that of the first.
func CauseOf(err error) string { return first(err, func(e *Error) string { return e.Cause }) }

// first goes through a tree of errors from the outside until a part is not empty.
func first(err error, part func(*Error) string) string {
	switch e := err.(type) { //nolint:errorlint // the tree is walked by hand
	case *Error:
		if s := part(e); s != "" {
			return s
		}
		return first(e.Err, part)
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			if s := first(sub, part); s != "" {
				return s
			}
		}
	case interface{ Unwrap() error }:
		return first(e.Unwrap(), part)
	}
	return ""
}
