package cli

import (
	"context"
	"os"
	"time"

	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/config"
	"kvd/pkg/diagnose"
	"kvd/pkg/ops/fault"
)

// diagnoseFiles are the flags of kvd diagnose that name what is at hand where
// nothing runs.
type diagnoseFiles struct {
	diagnose.DirOptions
	dirs      []string
	snapshots []string
	metrics   []string
	disks     []string
	target    string
	manifests []string
	backups   string
}

func (o *diagnoseFiles) addFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&o.dirs, "data-dir", nil, "data `directory` of a member: will it start, is it damaged; several are compared")
	fs.StringVar(&o.WALDir, "wal-dir", "", "where the log of the one --data-dir is, if not in it")
	fs.StringArrayVar(&o.snapshots, "snapshot", nil, "snapshot or backend `file`")
	fs.StringArrayVar(&o.metrics, "metrics", nil, "`file` with what a member's /metrics said (-: standard input); two of one member are compared")
	fs.StringArrayVar(&o.disks, "disk", nil, "measure the disk of a `directory` as etcd's log uses it, for 5 s at most")
	fs.StringVar(&o.backups, "backups", "", "`directory` with snapshots, to see how old the newest is")
	fs.StringVar(&o.target, "target", "", "minor `version` that the cluster is to be updated to, for example 3.8: what would it trip over")
	fs.StringArrayVar(&o.manifests, "manifest", nil, "with --target: `file` with the members' flags, variables or settings (static pod, unit, script, etcd's configuration file)")
}

// diskTime bounds a measurement.
const diskTime = 5 * time.Second

// named reports that a cluster is named on the command line.
func (o *diagnoseOptions) named() bool {
	return o.client.clusterName != "" || o.client.given()[config.Endpoints] != ""
}

// offline reports that files are named and no cluster is.
func (o *diagnoseOptions) offline() bool {
	files := len(o.dirs)+len(o.snapshots)+len(o.metrics)+len(o.disks) > 0
	return files && !o.named()
}

// check finds flags that make no sense together.
func (o *diagnoseFiles) check() error {
	usage := func(msg string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "diagnose", Msg: msg}
	}
	switch {
	case o.WALDir != "" && len(o.dirs) != 1:
		return usage("--wal-dir is where the log of one --data-dir is")
	case len(o.manifests) > 0 && o.target == "":
		return usage("--manifest says what --target is to be started with")
	}
	for i, name := range o.metrics {
		if name == "-" {
			o.metrics[i] = os.Stdin.Name()
		}
	}
	return o.checkNames()
}

// read adds what the files say to an input.
func (o *diagnoseFiles) read(ctx context.Context, app *App, in *diagnose.Input) error {
	if err := in.AddDirs(ctx, o.dirs, o.DirOptions, app.Progress()); err != nil {
		return err
	}
	for _, file := range o.snapshots {
		if err := in.AddFile(ctx, file, o.DirOptions, app.Progress()); err != nil {
			return err
		}
	}
	for _, dir := range o.disks {
		d, err := diagnose.MeasureDisk(ctx, dir, diskTime)
		if err != nil {
			return err
		}
		in.Disks = append(in.Disks, d)
	}
	if len(o.metrics) > 0 {
		if err := in.AddMetrics(o.metrics); err != nil {
			return err
		}
	}
	if o.backups != "" {
		in.AddBackups(o.backups)
	}
	if o.target != "" {
		return in.AddTarget(o.target, o.manifests)
	}
	return nil
}

// alone reports whether a file with flags is to be judged without the cluster, which
// nobody named and which could not be asked.
func (o *diagnoseOptions) alone(err error) bool {
	return len(o.manifests) > 0 && !o.named() && fault.KindOf(err) == fault.Unavailable
}

// runAlone judges files with flags, and says that the cluster could not be asked.
func runAlone(ctx context.Context, app *App, o diagnoseOptions, err error) error {
	in := &diagnose.Input{At: time.Now(), Limits: o.Limits}
	in.Missing = append(in.Missing, diagnose.Missing{Need: diagnose.NeedView, Why: fault.Why(err), Hint: fault.HintOf(err), Cause: fault.CauseOf(err)})
	return o.conclude(ctx, app, in)
}

// runOffline diagnoses from files alone.
func runOffline(ctx context.Context, app *App, o diagnoseOptions) error {
	in := &diagnose.Input{At: time.Now(), Limits: o.Limits}
	if len(o.dirs) > 0 {
		in.Missing = append(in.Missing, diagnose.Missing{Need: diagnose.NeedCluster, ByChoice: true, Why: "the cluster was not asked: whether a member had acknowledged more than its log has, only those that run know",
			Hint: "where files are named it is asked only by --endpoints or --cluster-name"})
	}
	return o.conclude(ctx, app, in)
}
