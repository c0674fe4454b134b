package ops

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
)

// copyRate is how many bytes in use a member copies per second, for predictions
// only: 540 MB took 4.8 s on the disk of a virtual machine.
const copyRate = 110 << 20

// roomyUsage is the share of its quota below which a file is better left alone.
const roomyUsage = 0.5

// notes says what the reader of the plan must know before saying yes.
func (d *defragmentation) notes(ctx context.Context, view cluster.View) []string {
	if len(d.todo) == 0 {
		return nil
	}
	var saw []string
	for _, g := range gates(view, cluster.Member{}, d.opts.MaxLag)[:4] {
		state := g.saw
		if g.refuse != "" {
			state = "REFUSES: " + g.refuse
		}
		saw = append(saw, fmt.Sprintf("%s: %s", g.name, state))
	}
	out := []string{"gates, looked at again before every step: " + strings.Join(saw, "; ")}
	out = append(out, d.stallNote(view))
	if view.HasAlarm(cluster.AlarmNoSpace) {
		out = append(out, "NOSPACE is raised: no reason not to defragment, and not cleared by it (see kvd alarm recover)")
	}
	for _, m := range DefragOrder(view, view.Members) {
		if d.todo[m.ID] && m.Status != nil {
			out = append(out, d.memberNotes(ctx, m)...)
		}
	}
	return out
}

// stallNote says what a defragmentation costs the clients.
func (d *defragmentation) stallNote(view cluster.View) string {
	var largest int64
	for _, m := range view.Answered() {
		if d.todo[m.ID] {
			largest = max(largest, m.Status.DBInUse)
		}
	}
	stall := max(time.Duration(float64(largest)/copyRate*float64(time.Second)), 100*time.Millisecond).Round(100 * time.Millisecond)
	if len(view.Voters()) == 1 {
		return fmt.Sprintf("there is one voter: the cluster answers nobody while it is defragmented, some %s on a fast disk", stall)
	}
	return fmt.Sprintf("a member answers no client while it is defragmented, some %s for the largest on a fast disk; the others go on", stall)
}

func (d *defragmentation) memberNotes(ctx context.Context, m cluster.Member) []string {
	var out []string
	need := binary(copyRoom(m.Status.DBInUse))
	switch disk, ok := d.local(m); {
	case d.opts.SkipDiskCheck:
	case ok:
		out = append(out, fmt.Sprintf("%s: the copy needs about %s in %s, %s are free", m.Label(), need, disk.dir, binary(disk.free)))
	default:
		out = append(out, fmt.Sprintf("%s: the copy needs about %s free on its disk, which is not visible from here", m.Label(), need))
	}
	if r, ok := m.Status.UsageRatio(); ok && r < roomyUsage && d.rule == nil {
		out = append(out, fmt.Sprintf("%s: the file is %.0f %% of its quota. Free pages are used again, and under steady churn the file grows back to "+
			"about what it is now: judge by the room below the quota (--if 'usage_ratio > 0.8') rather than by free pages", m.Label(), 100*r))
	}
	if _, err := d.c.Metrics(ctx, m); err != nil {
		out = append(out, fmt.Sprintf("%s: its metrics can't be read (%v), so after a timeout only its status can be followed; "+
			"give --metrics-url if they are elsewhere", m.Label(), err))
	}
	return out
}
