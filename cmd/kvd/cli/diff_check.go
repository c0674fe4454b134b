package cli

import (
	"errors"
	"fmt"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/diff"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/codec"
)

// check turns what was typed into the library's options.
func (o *diffOptions) check(app *App, args []string) (err error) {
	if o.a, err = parseSide(args[0]); err != nil {
		return err
	}
	if o.b, err = parseSide(args[1]); err != nil {
		return err
	}
	if o.Select.Prefix, err = unescape("diff", "--prefix", o.prefix); err != nil {
		return err
	}
	if o.Ignore, err = codec.ParseIgnore(o.ignore...); err != nil {
		return flagMisuse("diff", "--ignore", err.Error(), "want fields as in the object's YAML: status, metadata.annotations")
	}
	if o.by == "" {
		o.by = string(diff.ByResource)
	} else {
		o.stat = true
	}
	wrong := func(msg string) error { return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "diff", Msg: msg} }
	switch o.By = diff.By(o.by); {
	case o.By != diff.ByResource && o.By != diff.ByNamespace:
		return wrong(fmt.Sprintf("--by %q: want resource or namespace", o.by))
	case o.stat && o.nameOnly:
		return wrong("--stat and --by count keys, --name-only names them: give one of them")
	case o.hash && !o.members():
		return wrong("--hash is for two members: member:m1 member:m2")
	case o.trust && o.twoMembers():
		return wrong("--trust-revisions takes for granted what two members are compared for: a damaged value has the same revision")
	case app.Global.Output == render.YAML && !o.stat:
		return noYAML("diff", "; --stat has all three")
	case o.from.member != "" && o.a.names() && o.b.names():
		return wrong("--member is who is read where a side names nobody, and both sides do")
	case app.Global.Output == render.JSON && o.nameOnly:
		return wrong("--name-only is for reading by line; -o json has the name in each line")
	}
	o.Layout, o.Fields = o.from.layout(), !o.stat && !o.nameOnly || len(o.Ignore) > 0
	return errors.Join(o.from.check("diff", ""), o.Select.Check("diff"))
}
