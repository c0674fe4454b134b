package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// newMemberCmd groups what concerns the members of a cluster.
func newMemberCmd(app *App) *cobra.Command {
	return newGroupCmd("member", "List, add, promote, update, remove and replace members, and move the leadership",
		newMemberListCmd(app, runMemberList), newMemberAddCmd(app, runMemberAdd), newMemberPromoteCmd(app, runMemberPromote),
		newMemberUpdateCmd(app, runMemberUpdate),
		newMemberRemoveCmd(app, runMemberRemove), newMemberReplaceCmd(app, runMemberReplace), newMoveLeaderCmd(app, runMoveLeader))
}

// memberListOptions are the flags of kvd member list.
type memberListOptions struct {
	client   clientFlags
	exitCode bool
}

func (o *memberListOptions) addFlags(fs *pflag.FlagSet) {
	o.client.addFlags(fs)
	fs.BoolVar(&o.exitCode, "exit-code", false, "exit 3 where there is something odd about the members")
}

func newMemberListCmd(app *App, run func(context.Context, *App, memberListOptions) error) *cobra.Command {
	var o memberListOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Who is a member, who votes, who answers, and how many failures that bears",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), app, o) },
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Lists the members: role, whether they ever started and answer now, how far a
learner has caught up, and what it all means for the quorum. It points out
members that were added, never started and count all the same, learners that were
forgotten, and members whose own lists differ. It works without a quorum, and then
says what can still be done.`,
		Cost: "One Status request and one serializable member list per member; no quorum needed. As with `kvd status`, a linearizable read where too few voters answer.",
		Example: `
  kvd member list
  kvd member list -o json | jq '.findings[]'
  kvd member list -o json | jq -r '.members[] | select(.started | not) | .id'
  kvd member list --exit-code          # in a probe`,
		Exits: []int{3, 4, 6, 8},
	}.apply(cmd)
}

func runMemberList(ctx context.Context, app *App, o memberListOptions) error {
	return app.look(ctx, o.client, func(client *cluster.Client, view cluster.View) error {
		list := ops.ListMembers(ctx, client, view)
		err := app.Print(list, func(w io.Writer) error { return drawMembers(w, clusterLine(view), list) })
		if o.exitCode && len(list.Findings) > 0 {
			err = errors.Join(err, &fault.Error{Kind: fault.Wanting, Cause: list.Findings[0].Cause, Msg: fmt.Sprintf("findings: %d", len(list.Findings))})
		}
		return errors.Join(err, unreadable(view))
	})
}

func drawMembers(w io.Writer, head string, l ops.MemberList) error {
	fmt.Fprintln(w, head)
	if err := memberColumns().Write(w, l.Members); err != nil {
		return err
	}
	for _, f := range l.Findings {
		who := ""
		if f.Member != "" {
			who = f.Member + ": "
		}
		fmt.Fprintf(w, "%s: %s%s\n", f.Cause, render.Safe(who), render.Safe(f.Message))
		if f.Hint != "" {
			fmt.Fprintf(w, "  hint: %s\n", render.Safe(f.Hint))
		}
	}
	for _, n := range l.Notes {
		fmt.Fprintf(w, "note: %s\n", render.Safe(n))
	}
	return nil
}

func memberColumns() render.Columns[ops.ListedMember] {
	type m = ops.ListedMember
	return render.Columns[m]{
		{Header: "id", Value: func(m m) string { return m.ID }},
		{Header: "name", Value: func(m m) string { return orDash(m.Name) }},
		{Header: "role", Value: func(m m) string { return m.Role }},
		{Header: "votes", Value: func(m m) string { return yesNo(m.Voter) }},
		{Header: "peer urls", Value: func(m m) string { return strings.Join(m.PeerURLs, ",") }},
		{Header: "client urls", Value: func(m m) string { return orDash(strings.Join(m.ClientURLs, ",")) }},
		{Header: "lag", Right: true, Value: func(m m) string {
			if m.Lag == nil {
				return "-"
			}
			return strconv.FormatUint(*m.Lag, 10)
		}},
		{Header: "caught up", Right: true, Value: func(m m) string {
			if m.CaughtUp == nil {
				return "-"
			}
			return fmt.Sprintf("%.0f%%", 100**m.CaughtUp)
		}},
		{Header: "answers", Value: func(m m) string {
			if m.Cause != "" {
				return m.Cause
			}
			return "yes"
		}},
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
