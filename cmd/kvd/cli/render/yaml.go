package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	goyaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// WriteYAML writes v as YAML, see MarshalYAML.
func WriteYAML(w io.Writer, v any) error {
	b, err := MarshalYAML(v)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// MarshalYAML returns v as YAML, with the names of its JSON form, in alphabetical order.
// Nothing of it reaches a terminal that it would act upon, as with NewEncoder.
func MarshalYAML(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	// It is read as YAML, in which some of what JSON leaves as it is is an error, or
	// a line's end. An escape means the same to both, but for one of two halves.
	b, err = yaml.JSONToYAML(escapeHidden(b, func(r rune) bool { return r <= 0xffff }))
	if err != nil || !bytes.ContainsFunc(b, hidden) {
		return b, err
	}
	return withEscapes(b)
}

// escapeHidden writes hidden characters that are meant as YAML's escapes, which stand
// in double quotes only.
func escapeHidden(b []byte, meant func(rune) bool) []byte {
	if !bytes.ContainsFunc(b, hidden) {
		return b
	}
	var out bytes.Buffer
	for _, r := range string(b) {
		switch {
		case !hidden(r) || !meant(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes()
}

// hidden reports what YAML's own escapes leave as it is: invisible characters, of which
// some reorder text.
func hidden(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }

// withEscapes rewrites a document, so that what is hidden stands in double quotes,
// where YAML has escapes for it.
func withEscapes(document []byte) ([]byte, error) {
	var root goyaml.Node
	if err := goyaml.Unmarshal(document, &root); err != nil {
		return nil, err
	}
	quote(&root)
	var quoted bytes.Buffer
	enc := goyaml.NewEncoder(&quoted)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	if err := enc.Encode(&root); err != nil {
		return nil, err
	}
	return escapeHidden(quoted.Bytes(), func(rune) bool { return true }), nil
}

func quote(n *goyaml.Node) {
	if n.Kind == goyaml.ScalarNode && strings.ContainsFunc(n.Value, hidden) {
		n.Style = goyaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		quote(c)
	}
}
