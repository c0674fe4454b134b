package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// newAlarmCmd groups what concerns alarms.
func newAlarmCmd(app *App) *cobra.Command {
	return newGroupCmd("alarm", "List, disarm and recover from alarms",
		newAlarmListCmd(app, runAlarmList), newAlarmDisarmCmd(app, runAlarmDisarm), newAlarmRecoverCmd(app, runAlarmRecover))
}

// alarmListOptions are the flags of kvd alarm list.
type alarmListOptions struct {
	client   clientFlags
	exitCode bool
}

func (o *alarmListOptions) addFlags(fs *pflag.FlagSet) {
	o.client.addFlags(fs)
	fs.BoolVar(&o.exitCode, "exit-code", false, "exit 3 where an alarm is raised")
}

func newAlarmListCmd(app *App, run func(context.Context, *App, alarmListOptions) error) *cobra.Command {
	var o alarmListOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "The alarms that are raised, and who says so",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), app, o) },
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Lists the alarms that the members report in their status. Unlike etcdctl's list,
which is a raft proposal and hangs without a quorum, it works as long as one
member answers. Alarms of members that were removed since are listed too.`,
		Cost: "One Status request per member, answered from memory.",
		Example: `
  kvd alarm list
  kvd alarm list -o json | jq -r '.alarms[].type'
  kvd alarm list --exit-code && echo none`,
		Exits: []int{3, 4, 6, 8},
	}.apply(cmd)
}

// alarmList is the result of kvd alarm list.
type alarmList struct {
	ClusterID         string          `json:"cluster_id"`
	LeaderID          string          `json:"leader_id,omitempty"`
	VotersReachable   int             `json:"voters_reachable"`
	Voters            *int            `json:"voters"` // null, like the quorum, where it is not known who votes
	Quorum            *int            `json:"quorum"`
	Alarms            []cluster.Alarm `json:"alarms"`
	MembersNotHeardOf []string        `json:"members_not_heard_of,omitempty"`
}

func runAlarmList(ctx context.Context, app *App, o alarmListOptions) error {
	return app.look(ctx, o.client, func(_ *cluster.Client, view cluster.View) error {
		list := alarmListOf(view)
		err := app.Print(list, func(w io.Writer) error { return drawAlarms(w, view, list) })
		if o.exitCode && len(list.Alarms) > 0 {
			err = errors.Join(err, &fault.Error{Kind: fault.Wanting, Cause: "alarm_raised", Msg: fmt.Sprintf("alarms raised: %d", len(list.Alarms))})
		}
		return errors.Join(err, unreadable(view))
	})
}

func alarmListOf(v cluster.View) alarmList {
	l := alarmList{ClusterID: cluster.FormatID(v.ID), Alarms: []cluster.Alarm{}}
	if v.VotersKnown() {
		l.Voters, l.Quorum = new(len(v.Voters())), new(v.Quorum())
	}
	l.Alarms = append(l.Alarms, v.Alarms...)
	if v.Leader != 0 {
		l.LeaderID = cluster.FormatID(v.Leader)
	}
	for _, m := range v.Members {
		switch {
		case m.Status == nil:
			l.MembersNotHeardOf = append(l.MembersNotHeardOf, m.Label())
		case !m.Learner:
			l.VotersReachable++
		}
	}
	return l
}

func drawAlarms(w io.Writer, v cluster.View, l alarmList) error {
	if len(l.Alarms) == 0 {
		fmt.Fprintf(w, "no alarm (as %d of %d members say)\n", len(v.Answered()), len(v.Members))
	} else if err := alarmColumns().Write(w, l.Alarms); err != nil {
		return err
	}
	if l.Quorum != nil && !v.Commits && (v.Leader == 0 || l.VotersReachable < *l.Quorum) {
		fmt.Fprintf(w, "%d of %d voters answer, quorum is %d: an alarm cannot be disarmed until more are back\n",
			l.VotersReachable, *l.Voters, *l.Quorum)
	}
	return nil
}

func alarmColumns() render.Columns[cluster.Alarm] {
	return render.Columns[cluster.Alarm]{
		{Header: "type", Value: func(a cluster.Alarm) string { return a.Type }},
		{Header: "member", Value: func(a cluster.Alarm) string { return orDash(a.MemberName) }},
		{Header: "member id", Value: func(a cluster.Alarm) string { return cluster.FormatID(a.MemberID) }},
		{Header: "in list", Value: func(a cluster.Alarm) string {
			if a.InMemberList {
				return "yes"
			}
			return "no: removed"
		}},
		{Header: "source", Value: func(a cluster.Alarm) string { return a.Source }},
	}
}
