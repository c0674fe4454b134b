package cli

import (
	"cmp"
	"strings"

	"kvd/cmd/kvd/cli/render"
)

// askedOutput is the format that a command line asks for which could not be read to
// its end, so that the error about that comes in it: what -o says, else KVD_OUTPUT.
// It is the table where neither says anything that can be meant.
func askedOutput(args []string, getenv func(string) string) render.Format {
	var f render.Format
	if f.Set(cmp.Or(outputFlag(args), getenv("KVD_OUTPUT"))) != nil {
		return render.Table
	}
	return f
}

// outputFlag is the value of the last -o or --output, wherever it stands: a word that
// is the value of another flag may be taken for one.
func outputFlag(args []string) (value string) {
	for i, a := range args {
		name, v, together := strings.Cut(a, "=")
		switch {
		case a == "--":
			return value
		case (name == "-o" || name == "--output") && together:
			value = v
		case (a == "-o" || a == "--output") && i+1 < len(args):
			value = args[i+1]
		case strings.HasPrefix(a, "-o"):
			value = a[len("-o"):]
		}
	}
	return value
}
