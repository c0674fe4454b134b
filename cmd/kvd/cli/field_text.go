package cli

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/kube/codec"
)

// shownField is how many characters of one value a line has.
const shownField = 120

// fieldText writes a change of a field on one line, safe for a terminal:
// "~ spec.replicas: 3 → 5".
func fieldText(c codec.FieldChange) string {
	path := render.Safe(c.Path.String())
	if path == "" {
		path = "the value"
	}
	switch c.Op {
	case codec.Added:
		return "+ " + path + ": " + jsonText(c.After)
	case codec.Removed:
		return "- " + path + ": " + jsonText(c.Before)
	case codec.Reordered:
		return "~ " + path + ": in another order, " + jsonText(c.Before) + " → " + jsonText(c.After)
	}
	return "~ " + path + ": " + jsonText(c.Before) + " → " + jsonText(c.After)
}

// jsonText writes a value of a field as JSON, cut where it is long.
func jsonText(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a tree always has a text
	runes := []rune(printable(strings.TrimSuffix(b.String(), "\n")))
	if len(runes) > shownField {
		return string(runes[:shownField]) + "…"
	}
	return string(runes)
}

// printable escapes what a terminal might act upon, and leaves backslashes alone,
// which YAML has a meaning for.
func printable(line string) string {
	var b strings.Builder
	for _, r := range line {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}
