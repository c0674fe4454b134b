package cli

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/keyspace"
)

// keyLines returns what prints an entry of a list: a row of a table that needs no
// end, or a line of JSON.
func keyLines(out *bufio.Writer, asJSON, values bool) func(*keyspace.Entry) error {
	if asJSON {
		return jsonLines[*keyspace.Entry](out)
	}
	const row = "%10s  %10s  %7s  %9s  %-16s  %s\n"
	first := true
	return func(e *keyspace.Entry) error {
		if first {
			fmt.Fprintf(out, row, "REVISION", "CREATED", "VERSION", "SIZE", "LEASE", "KEY")
			first = false
		}
		size, lease := "-", orDash(e.Lease)
		if e.ValueBytes != nil {
			size = sizeText(*e.ValueBytes)
		}
		if e.Unread {
			lease = "?"
		}
		_, err := fmt.Fprintf(out, row, number(e.ModRevision), number(e.CreateRevision), number(e.Version), size, lease, render.Safe(string(e.Key)))
		if err == nil && values {
			err = drawValue(out, e.Value, "    ")
		}
		return err
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// drawEntry prints one key with its value, behind comments of YAML, so that the
// whole can be kept as a file.
func drawEntry(w io.Writer, e *keyspace.Entry) error {
	fmt.Fprintf(w, "# key              %s\n", render.Safe(string(e.Key)))
	fmt.Fprintf(w, "# resourceVersion  %d, the revision of its last write\n", e.ModRevision)
	fmt.Fprintf(w, "# created          at revision %d; version %d\n", e.CreateRevision, e.Version)
	fmt.Fprintf(w, "# lease            %s\n", orDash(e.Lease))
	fmt.Fprintf(w, "# value            %s\n", render.Safe(valueWords(e)))
	return drawValue(w, e.Value, "")
}

// valueWords says what a value is: "apps/v1 Deployment, protobuf, 2387 bytes".
func valueWords(e *keyspace.Entry) string {
	v := e.Value
	var parts []string
	if v.Kind != "" {
		parts = append(parts, v.APIVersion+" "+v.Kind)
	}
	if v.Encryption == nil {
		parts = append(parts, string(v.Form))
	}
	parts = append(parts, count(int(*e.ValueBytes), "byte"))
	if v.Note != "" {
		parts = append(parts, v.Note)
	}
	if v.Masked {
		parts = append(parts, "masked: --show-values shows it")
	}
	return strings.Join(parts, ", ")
}

// previewBytes is how much of a value that is no text is shown.
const previewBytes = 256

// drawValue prints a decoded value, each line behind an indent.
func drawValue(w io.Writer, v *keyspace.ValueShown, indent string) error {
	text := ""
	switch {
	case v.Object != nil:
		b, err := render.MarshalYAML(withoutManagers(v.Object))
		if err != nil {
			return err
		}
		text = string(b)
	case v.Text != nil:
		text = *v.Text
	case len(v.Bytes) > previewBytes:
		text = render.Safe(string(v.Bytes[:previewBytes])) + fmt.Sprintf(" … and %d bytes", len(v.Bytes)-previewBytes)
	case v.Bytes != nil:
		text = render.Safe(string(v.Bytes))
	case indent != "":
		text = v.Note
	}
	if indent != "" && v.Note != "" && text != v.Note { // alone, a value has it in its heading
		what := "# "
		if v.Object == nil && v.Kind != "" {
			what += v.APIVersion + " " + v.Kind + ": "
		}
		text = what + v.Note + "\n" + text
	}
	if text == "" {
		return nil
	}
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintf(w, "%s%s\n", indent, printable(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// withoutManagers leaves out of an object what is longer than the rest, and said
// better by a history: kubectl leaves it out, too.
func withoutManagers(object map[string]any) map[string]any {
	meta, ok := object["metadata"].(map[string]any)
	if !ok || meta["managedFields"] == nil {
		return object
	}
	object, meta = maps.Clone(object), maps.Clone(meta)
	delete(meta, "managedFields")
	object["metadata"] = meta
	return object
}

// eventText prints the changes of a key: a line each, and one for each field.
type eventText struct {
	w    io.Writer
	kind string // what the value was in the line before
}

func (t *eventText) line(e *keyspace.Event) error {
	if e.What == keyspace.Begins {
		_, err := fmt.Fprintf(t.w, "%10s  %s\n%10d  history begins: %s\n", "REVISION", "CHANGE", e.Revision, e.Note)
		return err
	}
	if _, err := fmt.Fprintf(t.w, "%10d  %s\n", e.Revision, render.Safe(strings.Join(t.parts(e), ", "))); err != nil {
		return err
	}
	for _, c := range e.Changes {
		if _, err := fmt.Fprintf(t.w, "%12s%s\n", "", fieldText(c)); err != nil {
			return err
		}
	}
	if e.Value != nil {
		return drawValue(t.w, e.Value, "              ")
	}
	return nil
}

// parts are the words of a line.
func (t *eventText) parts(e *keyspace.Event) []string {
	parts := []string{strings.ReplaceAll(string(e.What), "_", " ")}
	if e.ValueBytes != nil {
		parts = append(parts, fmt.Sprintf("version %d", e.Version), sizeText(*e.ValueBytes))
		if e.Kind != t.kind {
			parts = append(parts, e.Kind)
		}
		t.kind = e.Kind
	}
	switch {
	case e.Lease != "" && e.LeaseBefore != "":
		parts = append(parts, "lease "+e.LeaseBefore+" → "+e.Lease)
	case e.LeaseBefore != "":
		parts = append(parts, "was on lease "+e.LeaseBefore)
	case e.Lease != "":
		parts = append(parts, "lease "+e.Lease)
	}
	for i, m := range e.By {
		if i == mostManagers && len(e.By) > mostManagers+1 {
			parts = append(parts, fmt.Sprintf("by %d more, which -o json names", len(e.By)-i))
			break
		}
		parts = append(parts, managerWords(m))
	}
	if e.Note != "" {
		parts = append(parts, e.Note)
	}
	return parts
}

// mostManagers is how many of those who may have made a change are named in a line: an
// object can have hundreds, as where each client writes under a name of its own.
const mostManagers = 5

func managerWords(m keyspace.Manager) string {
	s := "by " + m.Manager
	if m.Subresource != "" {
		s += " (" + m.Subresource + ")"
	}
	if m.Time != "" {
		s += " at " + m.Time
	}
	return s
}
