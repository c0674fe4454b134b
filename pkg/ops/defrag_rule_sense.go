package ops

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"kvd/pkg/ops/fault"
)

// compareVersions is the function that comparisons of versions become: as text
// "3.10" is less than "3.7".
const compareVersions = "compareVersions"

// ruleSense looks at a rule while it is compiled. It has versions compared by
// number, and notes what can't be meant.
type ruleSense struct {
	text string
	err  error
}

// Visit implements ast.Visitor.
func (s *ruleSense) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok || !slices.Contains([]string{"<", "<=", ">", ">=", "==", "!="}, n.Operator) {
		return
	}
	for _, pair := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
		id, ok := pair[0].(*ast.IdentifierNode)
		if !ok {
			continue
		}
		if limit, ok := ratioLimit(id.Value); ok {
			s.ratio(id.Value, limit, pair[1])
		}
		if version, ok := pair[1].(*ast.StringNode); ok && id.Value == "version" && strings.ContainsAny(n.Operator, "<>") {
			s.version(version.Value)
			ast.Patch(&n.Left, &ast.CallNode{Callee: &ast.IdentifierNode{Value: compareVersions}, Arguments: []ast.Node{n.Left, n.Right}})
			ast.Patch(&n.Right, &ast.IntegerNode{})
			return
		}
	}
}

// ratioLimit returns above what a ratio is per cent by mistake. A file may be
// larger than its quota, by a lot where that was lowered.
func ratioLimit(name string) (float64, bool) {
	switch name {
	case "free_ratio", "in_use_ratio":
		return 1, true
	case "usage_ratio", "dbQuotaUsage":
		return 10, true
	}
	return 0, false
}

func (s *ruleSense) ratio(name string, limit float64, with ast.Node) {
	var number float64
	switch n := with.(type) {
	case *ast.IntegerNode:
		number = float64(n.Value)
	case *ast.FloatNode:
		number = n.Value
	}
	if number > limit {
		s.note(fmt.Sprintf("%s is a part of 1 and not per cent, but compared with %v in %q", name, number, s.text), fmt.Sprintf("for %v %% write %v", number, number/100))
	}
}

func (s *ruleSense) version(text string) {
	if _, ok := looseVersion(text); !ok {
		s.note(fmt.Sprintf("%q is no version to compare with, in %q", text, s.text), `write versions as "3.6" or "3.6.14"`)
	}
}

func (s *ruleSense) note(msg, hint string) {
	if s.err == nil {
		s.err = &fault.Error{Kind: fault.Usage, Cause: "rule", Op: "defrag", Subject: "--if", Msg: msg, Hint: hint}
	}
}

// looseVersion reads a version of one to three numbers.
func looseVersion(s string) (release, bool) {
	return parseVersion(s + strings.Repeat(".0", max(0, 2-strings.Count(s, "."))))
}

func versionOrder(args ...any) (any, error) {
	var n [2]release
	for i := range n {
		text, _ := args[i].(string)
		var ok bool
		if n[i], ok = looseVersion(text); !ok {
			return nil, fmt.Errorf("%q is no version to compare", text)
		}
	}
	return slices.Compare(n[0][:], n[1][:]), nil
}

// sizeHint helps who wrote a size as everywhere else in kvd, or nothing.
func sizeHint(text string) string {
	m := regexp.MustCompile(`(?:^|[^"\w.])(\d+(?:\.\d+)?) *([KMG]i?B)\b`).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return fmt.Sprintf("write %s%s as bytes(\"%s%s\"), or with a star: 100*MiB", m[1], m[2], m[1], m[2])
}
