package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/wal"
)

// span reads A..B, where either may be left out, or one number.
func span(flag, s string) (wal.Span, error) {
	from, to, isRange := strings.Cut(s, "..")
	if !isRange {
		to = from
	}
	var out wal.Span
	for _, end := range []struct {
		text string
		n    *uint64
	}{{from, &out.From}, {to, &out.To}} {
		if end.text == "" {
			continue
		}
		n, err := strconv.ParseUint(end.text, 10, 64)
		if err != nil || n == 0 {
			return out, flagMisuse("wal dump", flag, s, "is no span: want A..B, A.., ..B or A, counted from 1")
		}
		*end.n = n
	}
	if out.To != 0 && out.To < out.From {
		return out, flagMisuse("wal dump", flag, s, "ends before it begins")
	}
	return out, nil
}

// someUser refuses a --user that is nobody, as a variable of a script that was not set.
func (o *walDumpOptions) someUser(fs *pflag.FlagSet) error {
	if fs.Changed("user") && o.User == "" {
		return flagMisuse("wal dump", "--user", `""`, "is nobody: leave the flag out to see the entries of all")
	}
	return nil
}

// noYAML refuses -o yaml for a command whose result has no end; but says what has it.
func noYAML(op, but string) error {
	return flagMisuse(op, "-o", "yaml", "is no form of a stream: -o table, or -o json for a line of JSON each"+but)
}

func flagMisuse(op, flag, value, why string) error {
	return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: op, Msg: fmt.Sprintf("%s %s %s", flag, value, why)}
}

// unescapeAll reads keys as kvd prints them, see unescape.
func unescapeAll(flag string, keys []string) ([]string, error) {
	out := make([]string, 0, len(keys))
	for _, s := range keys {
		key, err := unescape("wal dump", flag, s)
		if err != nil {
			return nil, err
		}
		out = append(out, key)
	}
	return out, nil
}

// unescape reads a key as kvd prints it (render.Safe): a backslash begins an escape
// of Go's, and any other character stands for itself.
func unescape(op, flag, s string) (string, error) {
	var key []byte
	for rest := s; rest != ""; {
		c, multibyte, tail, err := strconv.UnquoteChar(rest, 0)
		if err != nil {
			return "", flagMisuse(op, flag, s, "has a backslash that begins no escape: a backslash itself is written twice")
		}
		if multibyte {
			key = append(key, string(c)...)
		} else {
			key = append(key, byte(c))
		}
		rest = tail
	}
	return string(key), nil
}

// checkTypes refuses what is no type of an entry.
func checkTypes(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(wal.RequestTypes(), func(t wal.RequestType) bool { return t.Named(name) }) {
			all := make([]string, 0, 40)
			for _, t := range wal.RequestTypes() {
				all = append(all, string(t))
			}
			slices.Sort(all)
			return flagMisuse("wal dump", "--type", strconv.Quote(name), "is none of "+strings.Join(all, ", "))
		}
	}
	return nil
}
