package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/revclock"
)

const opDelete = "keys delete"

// DeleteOptions says which keys to delete, and how.
type DeleteOptions struct {
	Select DeleteSelection
	Layout keys.Layout // where Kubernetes' objects are
	MeanIt []string    // what is protected and is to go all the same, by its name

	// Snapshot saves one before the first deletion and says where it is; nil: none.
	Snapshot func(ctx context.Context, view cluster.View) (saved string, err error)
	// Saved names a whole snapshot of this cluster that an earlier run has left, or
	// nothing; its error says why Snapshot could not save one. Nil: there is none.
	Saved func(ctx context.Context, view cluster.View) (file string, err error)
	// Known tells which revision is as old as Select.OlderThan, for keys that are
	// no Kubernetes objects; nil: their age is not known.
	Known func(now time.Time) revclock.Answer
}

// DeleteDetail is what a plan would delete, as of one revision.
type DeleteDetail struct {
	Selection string        `json:"selection"`
	Revision  int64         `json:"revision"` // what is written later is kept
	Keys      int64         `json:"keys"`
	Bytes     int64         `json:"live_bytes"`
	BytesErr  int64         `json:"live_bytes_error"` // 95 % interval; 0: every value was read
	Younger   int64         `json:"keys_kept_younger"`
	Ageless   int64         `json:"keys_kept_age_unknown"`
	Groups    []DeleteGroup `json:"groups"` // by bytes, the largest first

	Namespaces []DeleteNamespace `json:"namespaces"` // of objects, by keys, the most first
}

// deletion is one deletion being planned or run.
type deletion struct {
	client *cluster.Client
	source keyspace.Source
	opts   DeleteOptions
	sink   progress.Sink
	now    time.Time // ages are reckoned from it

	selector keyspace.Selector
	roots    *roots
	protect  protector
	layout   keys.Layout // of opts, with the roots that were found among the keys
	known    revclock.Answer
	found    *survey
	before   latency // of small writes, once it is measured
}

// PlanDelete looks at what is selected and plans its deletion: a snapshot, then
// the keys, one step for each kind. Nothing is sent that changes anything. Keys are
// read from the member that minds least, and again from it as the plan is run.
//
// A key is deleted only as it was when the plan was made: what has been written
// since is kept. So a run that was interrupted anywhere is finished by the next.
//
// Errors: fault.Usage where nothing is selected, fault.Refused where something
// protected is that MeanIt does not name.
func PlanDelete(ctx context.Context, client *cluster.Client, view cluster.View, o DeleteOptions, sink progress.Sink) (*plan.Plan, error) {
	if err := o.Select.check(o.Layout); err != nil {
		return nil, err
	}
	if view.HasAlarm(cluster.AlarmCorrupt) {
		return nil, &fault.Error{Kind: fault.Refused, Cause: cluster.CauseCorrupt, Op: opDelete,
			Msg:  "a CORRUPT alarm is raised, and etcd refuses deletions until it is cleared",
			Hint: "take a snapshot of a healthy member, replace the corrupt one, then disarm"}
	}
	if err := canCommit(view, opDelete); err != nil {
		return nil, err
	}
	d := &deletion{client: client, opts: o, sink: sink, now: time.Now(), roots: newRoots(o.Layout)}
	if o.Known != nil {
		d.known = o.Known(d.now)
	}
	if err := d.findRoot(ctx); err != nil {
		return nil, err
	}
	d.selector = o.Select.Selector(d.opts.Layout)
	if err := d.refuse(newProtector(nil).selected(o.Select)); err != nil {
		return nil, err
	}
	if err := d.look(ctx, view); err != nil {
		return nil, err
	}
	if err := o.Select.check(d.layout); err != nil {
		return nil, err
	}
	if err := d.refuse(d.found.protected); err != nil {
		return nil, err
	}
	p := d.plan()
	like, err := d.meant(ctx)
	if err != nil {
		return nil, err
	}
	p.Notes = append(p.Notes, like...)
	if o.Snapshot != nil && len(d.found.groups) > 0 {
		first, err := d.snapshotStep(ctx, view)
		if err != nil {
			return nil, err
		}
		p.Steps = append([]plan.Step{first}, p.Steps...)
	}
	return p, nil
}

// look surveys what is selected, on the first member that answers.
func (d *deletion) look(ctx context.Context, view cluster.View) error {
	err := view.VotersErr(opDelete)
	for _, m := range view.Readers() {
		var mc *cluster.MemberClient
		if mc, err = d.client.Member(m.ID); err != nil {
			return err
		}
		d.source = keyspace.OpenLive(mc, keyspace.LiveOptions{Layout: d.opts.Layout, Timeout: d.client.Config().CommandTimeout, Op: opDelete, Sink: d.sink})
		if d.found, err = d.survey(ctx); fault.KindOf(err) != fault.Unavailable || ctx.Err() != nil {
			break
		}
	}
	return err
}

// refuse names what is protected and not meant.
func (d *deletion) refuse(protected map[string]int64) error {
	return refuseProtected(opDelete, d.opts.Select.String(), "select less", d.opts.MeanIt, protected)
}

// refuseProtected names what is protected and not meant. less is what else to do.
func refuseProtected(op, subject, less string, meant []string, protected map[string]int64) error {
	var names, said []string
	for name, n := range protected {
		if slices.Contains(meant, name) {
			continue
		}
		names = append(names, name)
		if n > 0 {
			name = fmt.Sprintf("%s (%s)", name, counted(int(n), "key"))
		}
		said = append(said, name)
	}
	if len(names) == 0 {
		return nil
	}
	if slices.Contains(names, protectStray) {
		less = "give the --etcd-prefix that these objects of Kubernetes lie below: --kube-prefix"
	}
	names = append(names, meant...) // so that the hint can be followed as it is
	slices.Sort(names)
	slices.Sort(said)
	return &fault.Error{Kind: fault.Refused, Cause: "protected", Op: op, Subject: subject,
		Msg:  "among what is selected is what is not deleted by a slip: " + strings.Join(said, ", "),
		Hint: less + "; or, to delete that too, name it: --i-mean-it " + strings.Join(slices.Compact(names), ",")}
}

// plan makes the steps of what was found, but for the snapshot.
func (d *deletion) plan() *plan.Plan {
	p := &plan.Plan{Op: opDelete, Detail: d.found.detail(d.opts.Select), Notes: d.notes()}
	if len(d.found.groups) == 0 {
		p.Steps = []plan.Step{{StepResult: plan.StepResult{Subject: "cluster", Action: "delete", State: plan.Skipped, Reason: "no key is selected"}}}
		return p
	}
	for _, g := range d.found.sorted() {
		p.Steps = append(p.Steps, d.step(g))
	}
	return p
}

// notes says what must be known before saying yes.
func (d *deletion) notes() []string {
	f := d.found
	out := []string{fmt.Sprintf("%s selects %s at revision %d, read from %s; a key that is written after that is kept",
		d.opts.Select, f.total(), f.rev, d.source.Name())}
	if o := d.opts.Select.OlderThan; o > 0 {
		out = append(out, fmt.Sprintf("kept: %d younger than %s, %d whose age is not known", f.younger, o, f.ageless))
	}
	if len(f.groups) == 0 {
		return out
	}
	for _, note := range []string{f.ends.note(d.opts.Select.Prefix), f.namespacesNote()} {
		if note != "" {
			out = append(out, note)
		}
	}
	if f.objects > 0 {
		out = append(out, "Kubernetes' objects go without their finalizers, without admission and without grace: controllers see them gone, "+
			"what belongs to them is left to the garbage collector")
	}
	if d.opts.Snapshot == nil {
		out = append(out, "no snapshot is taken: what is deleted can be had back only until the next compaction, or from a backup")
	}
	return append(out, "deleting makes history of live data; its space is free after `kvd alarm recover`, or `kvd compact` and `kvd defrag`")
}

// quotedPrefix writes a prefix as a word for a shell, in which nothing that somebody
// put into a key is carried out. What a terminal does not show is escaped where the
// text is printed, as --prefix takes it.
func quotedPrefix(prefix string) string {
	special := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:@%+=,", r))
	}
	if strings.ContainsFunc(prefix, special) {
		return "'" + strings.ReplaceAll(prefix, "'", `'"'"'`) + "'"
	}
	return `"` + prefix + `"`
}

// deleteHint says how to make room where live data takes it: with the first of these
// groups, or with any.
func deleteHint(groups []keyspace.Group) string {
	which := "--prefix PREFIX"
	if len(groups) > 0 {
		switch g := groups[0]; {
		case g.Resource != "":
			which = "--resource " + g.Resource
		case g.Prefix != "": // that of everything is refused
			which = "--prefix " + quotedPrefix(string(g.Prefix))
		}
	}
	return "delete what can go, which works while NOSPACE is raised (`kvd keys delete " + which + " --dry-run` shows what would)"
}

// groupText says how much a group of keys has, also one of keys that begin alike in
// nothing.
func groupText(g keyspace.Group) string {
	name := fmt.Sprintf("%q", string(g.Prefix))
	if g.Prefix == "" {
		name = "keys without a common prefix"
	}
	return fmt.Sprintf("%s: %d keys, %s, %.0f %% of the live bytes", name, g.Keys, binary(int64(g.Bytes.Bytes)), 100*g.Share)
}
