package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/diff"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
)

// sideSpec is one side as it is typed: a path, a member, or neither, and a revision.
type sideSpec struct {
	typed  string
	path   string // a file or data directory; empty: a running member
	member string // its name or ID; empty: the one that minds least
	rev    int64  // see relative; 0 with relative: the latest
	back   bool   // rev counts back from the latest
}

// parseSide reads @1200, @head, @-500, member:NAME and PATH, the last two with or
// without a revision behind. A file whose name has an @ in it is that file.
func parseSide(s string) (sideSpec, error) {
	side := sideSpec{typed: s, back: true}
	place := s
	if _, err := os.Stat(s); err != nil {
		if i := strings.LastIndexByte(s, '@'); i >= 0 {
			var ok bool
			if side.rev, side.back, ok = parseRevision(s[i+1:]); !ok && (i == 0 || strings.HasPrefix(s, "member:") || exists(s[:i])) {
				return side, &fault.Error{Kind: fault.Usage, Cause: "side", Op: "diff", Subject: s, Msg: "this is no revision",
					Hint: "want @1200, @head, or @-500 for 500 before the head"}
			} else if ok {
				place = s[:i]
			}
		}
	}
	if name, ok := strings.CutPrefix(place, "member:"); ok {
		side.member = name
		if name == "" {
			return side, &fault.Error{Kind: fault.Usage, Cause: "side", Op: "diff", Subject: s, Msg: "which member is not said", Hint: "want member:NAME, as `kvd status` shows it"}
		}
		return side, nil
	}
	side.path = place
	if place == "" && s == "" {
		return side, &fault.Error{Kind: fault.Usage, Cause: "side", Op: "diff", Msg: "a side is empty", Hint: "@head is the latest revision of the running cluster"}
	}
	return side, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// parseRevision reads what is behind the @.
func parseRevision(s string) (rev int64, back, ok bool) {
	if s == "head" {
		return 0, true, true
	}
	digits, back := strings.CutPrefix(s, "-")
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, back, err == nil && n > 0 && digits[0] != '+'
}

// live reports that the side is a running member.
func (s sideSpec) live() bool { return s.path == "" }

// names reports that the side says itself what is read.
func (s sideSpec) names() bool { return s.path != "" || s.member != "" }

// latest reports that no revision was typed.
func (s sideSpec) latest() bool { return s.back && s.rev == 0 }

// openSide is a side that is open, at its revision.
type openSide struct {
	diff.Side
	source
	spec   sideSpec
	bounds keyspace.Bounds
}

// openSides opens both sides and finds their revisions. Two revisions of the running
// cluster are read from one member.
func (o *diffOptions) openSides(ctx context.Context, app *App) (a, b openSide, err error) {
	if a, err = o.openOne(ctx, app, o.a, o.from.member); err != nil {
		return a, b, err
	}
	like := o.from.member
	if o.a.live() && o.a.member == "" {
		like = cluster.FormatID(a.member.ID)
	}
	if b, err = o.openOne(ctx, app, o.b, like); err != nil {
		return a, b, errors.Join(err, a.Close())
	}
	return a, b, nil
}

// pin has two members without a revision read at one that all members have, and
// returns what is known of who is at which.
func (o *diffOptions) pin(ctx context.Context, a, b *openSide) (heads ops.Heads, err error) {
	if o.members() && a.spec.latest() && b.spec.latest() {
		heads, err = ops.ReadHeads(ctx, a.client, a.view)
		a.Rev, b.Rev = heads.Pinned, heads.Pinned
	}
	return heads, err
}

// members reports that two members are compared, and not two revisions.
func (o *diffOptions) members() bool { return o.a.member != "" && o.b.member != "" }

// openOne opens a side; other is the member that is read where the side names none.
func (o *diffOptions) openOne(ctx context.Context, app *App, spec sideSpec, other string) (openSide, error) {
	side := openSide{spec: spec}
	var err error
	if spec.live() {
		side.source, err = o.from.openMember(ctx, app, "diff", cmp.Or(spec.member, other))
	} else {
		side.source, err = o.from.open(ctx, app, "diff", spec.path)
	}
	if err != nil {
		return side, err
	}
	side.Side.Source = side.source.Source
	if side.bounds, err = side.source.Bounds(ctx); err == nil {
		side.Rev, err = side.revision()
	}
	if err != nil {
		return side, errors.Join(err, side.source.Close())
	}
	return side, nil
}

// revision finds the revision that was asked for.
func (s *openSide) revision() (int64, error) {
	rev := s.spec.rev
	if s.spec.back {
		rev = s.bounds.Head - rev
	}
	if rev <= 0 {
		return 0, &fault.Error{Kind: fault.Usage, Cause: "side", Op: "diff", Subject: s.spec.typed,
			Msg: fmt.Sprintf("there is no revision %d before the head, which is %d", s.spec.rev, s.bounds.Head)}
	}
	return s.bounds.Revision(s.source.Name(), rev)
}

// Close releases what was opened.
func (s openSide) Close() error { return s.source.Close() }

// twoMembers reports that two places of a running cluster are compared that may be
// two members.
func (o *diffOptions) twoMembers() bool {
	return o.a.live() && o.b.live() && o.a.member != o.b.member
}

// sameSource reports that both sides are read from one file or member, where a key
// of the same revision is the same.
func sameSource(a, b openSide) bool {
	if a.spec.live() != b.spec.live() {
		return false
	}
	if a.spec.live() {
		return a.member.ID == b.member.ID && a.view.ID == b.view.ID
	}
	return a.spec.path == b.spec.path
}
