package server

import (
	"flag"
	"fmt"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"
)

// FlagUsages lists etcd's flags with their defaults, one paragraph each, in
// alphabetical order and without the ignored ones.
func FlagUsages() string {
	var b strings.Builder
	boundTo(embed.NewConfig()).set.VisitAll(func(f *flag.Flag) {
		if isIgnored(f.Name) || isOwnFlag(f.Name) {
			return
		}
		fmt.Fprintf(&b, "  --%s '%s'\n", f.Name, f.DefValue)
		for _, line := range Wrap(f.Usage, 100) {
			fmt.Fprintf(&b, "      %s\n", line)
		}
	})
	return b.String()
}

// Wrap breaks text into lines of at most width bytes, at spaces and newlines.
func Wrap(text string, width int) []string {
	var lines []string
	for para := range strings.SplitSeq(text, "\n") {
		line := ""
		for word := range strings.FieldsSeq(para) {
			switch {
			case line == "":
				line = word
			case len(line)+1+len(word) > width:
				lines = append(lines, line)
				line = word
			default:
				line += " " + word
			}
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
