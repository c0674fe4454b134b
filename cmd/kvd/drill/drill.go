// Package drill plays what hurts etcd, and what helps, on a throwaway cluster of
// real `kvd serve` processes: reproduce, diagnose, remedy, prove. One scene is
// one file; what scenes share (the cluster, Kubernetes' objects, its compactor)
// has files of its own.
//
// A scene tells nothing itself: it fills a Report, and whoever calls it tells
// the story from that.
package drill

import (
	"fmt"
	"os"

	"github.com/dustin/go-humanize"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/server/local"
)

// Remedies for a cluster that has run out of space.
const (
	RemedyRecover    = "recover"     // compact, defragment, check, disarm
	RemedyRaiseQuota = "raise-quota" // restart with a larger quota, then disarm
)

// Options says how to play a drill.
type Options struct {
	Members    int    // 1 to 5
	QuotaBytes int64  // of each member; also how much is written
	Remedy     string // RemedyRecover or RemedyRaiseQuota
	Keep       bool   // leave the cluster running, if it came to a verdict
	Dir        string // an existing folder to make the cluster's own in; empty: the system's temporary folder

	// Command is what the members run; default: this executable with "serve".
	Command local.Command
	// Told is called after each phase with the report so far. The fields that
	// belong to a phase do not change after it.
	Told func(Report, Phase)
	// Sabotage changes the plan of the remedy before it is run. It is for tests,
	// which see with it that a drill without its remedy is not called proved.
	Sabotage func(*plan.Plan)
}

// DefaultOptions returns three members with 16 MiB each, recovered.
func DefaultOptions() Options {
	return Options{Members: 3, QuotaBytes: 16 << 20, Remedy: RemedyRecover}
}

// Limits of Options. Below the lower quota there is no room for live data beside
// history; above the upper one the fill takes many minutes.
const (
	MaxMembers    = 5
	MinQuotaBytes = 4 << 20
	MaxQuotaBytes = 1 << 30
)

// check finds what is wrong with options. Its errors are of kind Usage.
func (o Options) check() error {
	switch {
	case o.Members < 1 || o.Members > MaxMembers:
		return usage("--members %d: want 1 to %d", o.Members, MaxMembers)
	case o.QuotaBytes < MinQuotaBytes || o.QuotaBytes > MaxQuotaBytes:
		return usage("--quota %s: want %s to %s", humanize.IBytes(uint64(max(0, o.QuotaBytes))),
			humanize.IBytes(MinQuotaBytes), humanize.IBytes(MaxQuotaBytes))
	case o.Remedy != RemedyRecover && o.Remedy != RemedyRaiseQuota:
		return usage("--remedy %q: want %s or %s", o.Remedy, RemedyRecover, RemedyRaiseQuota)
	}
	return checkDir(o.Dir)
}

// usage is an error of kind Usage.
func usage(format string, args ...any) error {
	return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "drill", Msg: fmt.Sprintf(format, args...)}
}

// checkDir finds what is wrong with the folder that a drill is to work in.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	if info, err := os.Stat(dir); err != nil {
		return usage("--dir: %v", err)
	} else if !info.IsDir() {
		return usage("--dir %s: not a folder", dir)
	}
	return nil
}

func (o Options) setting() setting {
	return setting{members: o.Members, keep: o.Keep, dir: o.Dir, command: o.Command, quota: o.QuotaBytes}
}
