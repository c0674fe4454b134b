package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/fault"
)

// keyArgs are the arguments KEY and SOURCE, and the flags that belong to the latter.
type keyArgs struct {
	source sourceFlags
	key    string
	path   string
}

// read reads KEY [SOURCE].
func (k *keyArgs) read(op string, args []string) (err error) {
	if k.key, err = unescape(op, "KEY", args[0]); err != nil {
		return err
	}
	if k.key == "" {
		err = &fault.Error{Kind: fault.Usage, Cause: "argument", Op: op, Msg: "the empty key is none of etcd's"}
	}
	if len(args) > 1 {
		k.path = args[1]
	} else if err == nil {
		err = noKey(op, args[0])
	}
	return errors.Join(err, k.source.check(op, k.path))
}

// noKey is the error of a command that was given a SOURCE and no KEY: it would ask a
// cluster for a key with the name of a file.
func noKey(op, arg string) error {
	info, err := os.Stat(arg)
	if err == nil && info.IsDir() {
		info, err = os.Stat(filepath.Join(arg, "member", "snap", "db"))
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return &fault.Error{Kind: fault.Usage, Cause: "argument", Op: op, Subject: arg, Msg: "this is a file, and no KEY is given",
		Hint: fmt.Sprintf(`want "kvd %s KEY %s"; "kvd keys list %s" names its keys. For a key of a running cluster that has the name of a file, write its first byte in hexadecimal, see --help`,
			op, arg, arg)}
}

// missing is the error of a command whose key is not there.
func (k *keyArgs) missing(op, msg, hint string) error {
	return &fault.Error{Kind: fault.Wanting, Cause: "no_such_key", Op: op, Subject: k.key, Msg: msg, Hint: hint}
}

// jsonLines returns what writes a line of JSON for each part of a stream.
func jsonLines[T any](w io.Writer) func(T) error {
	enc := render.NewEncoder(w)
	return func(part T) error { return enc.Encode(part) }
}
