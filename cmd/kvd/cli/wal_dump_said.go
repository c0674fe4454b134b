package cli

import (
	"fmt"

	"kvd/pkg/ops/wal"
)

// warnTorn tells of a last record that is not whole.
func warnTorn(app *App, d *wal.Damage, live string) {
	if live != "" {
		app.warn("the last record is not whole: %s is writing it, or it was cut short before: %s, %s", live, d.File, d)
		return
	}
	app.warn("the log ends with a record that is cut short, as by a loss of power; `kvd wal verify` says what a start makes of it: %s, %s", d.File, d)
}

func leasesWere(n int64) string {
	if n == 1 {
		return "1 lease was"
	}
	return fmt.Sprintf("%d leases were", n)
}

// nothingShown says why there is no line. A log without an entry is that of a member
// which began with a snapshot that was sent to it.
func nothingShown(sum wal.DumpSummary) string {
	if sum.Entries == 0 {
		return "there is no entry in the log: it begins with a snapshot, which `kvd wal list` shows, and nothing has been written since"
	}
	return fmt.Sprintf("nothing of what was asked for is among the entries of the log, which are %d in number, from index %d to %d", sum.Entries, sum.First, sum.Last)
}
