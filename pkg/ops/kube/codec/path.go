package codec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Path is a place in an object: spec.containers[name=web].image.
type Path []Step

// Step is one step of a Path: a field, an element of a list that is known by one
// of its fields, or by its number.
type Step struct {
	Field      string // of an element of a list: empty
	Key, Value string // the field that the element is known by, and its value
	Index      int    // counted from 0, if Key is empty
	element    bool
}

func (p Path) field(name string) Path { return append(slices.Clip(p), Step{Field: name}) }
func (p Path) index(i int) Path       { return append(slices.Clip(p), Step{Index: i, element: true}) }
func (p Path) named(key, value string) Path {
	return append(slices.Clip(p), Step{Key: key, Value: value, element: true})
}

// String writes the path as kubectl's JSONPath does, nearly: a field whose name has
// dots, as labels have, stands in brackets and quotes.
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		switch {
		case s.Key != "":
			fmt.Fprintf(&b, "[%s=%s]", s.Key, s.Value)
		case s.element:
			fmt.Fprintf(&b, "[%d]", s.Index)
		case strings.ContainsAny(s.Field, `.[]" `) || s.Field == "":
			fmt.Fprintf(&b, "[%s]", strconv.Quote(s.Field))
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.Field)
		}
	}
	return b.String()
}

// MarshalText writes the path into JSON.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Ignore is a set of places that a comparison leaves out, each with all that is
// below it.
type Ignore [][]string

// ParseIgnore reads places: managedFields, status, metadata.annotations,
// spec.containers.image (of every container), metadata.labels["app.kubernetes.io/name"].
// managedFields alone is metadata.managedFields, and so with the other fields of
// metadata that change with every write.
func ParseIgnore(places ...string) (Ignore, error) {
	var out Ignore
	for _, place := range places {
		steps, err := parseFields(place)
		if err != nil {
			return nil, fmt.Errorf("%q is no path of fields: %w", place, err)
		}
		if len(steps) == 1 && slices.Contains([]string{"managedFields", "resourceVersion", "generation", "annotations", "labels"}, steps[0]) {
			steps = []string{"metadata", steps[0]}
		}
		out = append(out, steps)
	}
	return out, nil
}

func parseFields(s string) ([]string, error) {
	var steps []string
	for rest := s; ; {
		var field string
		if quoted, ok := strings.CutPrefix(rest, "["); ok {
			prefix, err := strconv.QuotedPrefix(quoted)
			if err != nil || !strings.HasPrefix(quoted[len(prefix):], "]") {
				return nil, errors.New(`a bracket wants a field in quotes: ["app.kubernetes.io/name"]`)
			}
			if field, err = strconv.Unquote(prefix); err != nil {
				return nil, err
			}
			rest = quoted[len(prefix)+1:]
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			field, rest = rest[:end], rest[end:]
		}
		if field == "" {
			return nil, errors.New("a field is missing")
		}
		steps = append(steps, field)
		if rest == "" {
			return steps, nil
		}
		rest = strings.TrimPrefix(rest, ".")
	}
}

// has reports whether a path is one that is left out, or below one.
func (ig Ignore) has(p Path) bool {
	for _, fields := range ig {
		at := 0
		for _, s := range p {
			if at == len(fields) {
				break
			}
			if s.element {
				continue // every element of a list
			}
			if s.Field != fields[at] {
				at = -1
				break
			}
			at++
		}
		if at == len(fields) {
			return true
		}
	}
	return false
}
