package cli

import (
	"path/filepath"
	"strconv"

	"kvd/pkg/ops/snapshot"
)

// here says which members are restored by this run, and where to.
func (o *snapshotRestoreOptions) here(r snapshot.Recipe) ([]snapshot.RestoreTarget, error) {
	switch {
	case o.writePlan != "":
		if o.all || o.name != "" || o.dataDir != "" || o.walDir != "" || o.planFile != "" || o.plan.DryRun || o.plan.Report != "" {
			return nil, restoreUsage("--write-plan restores nothing, so that --plan, --name, --all, --data-dir, --wal-dir, --dry-run and --report have no meaning with it", "")
		}
		return nil, nil
	case o.all && o.name != "":
		return nil, restoreUsage("--all and --name: give one of them", "")
	case !o.all && o.name == "" && len(r.Members) > 1:
		return nil, restoreUsage("which member is restored here?", "give --name, or --all")
	}
	var out []snapshot.RestoreTarget
	for _, m := range r.Members {
		switch {
		case o.all:
			if filepath.Base(m.Name) != m.Name || m.Name == ".." || m.Name == "." {
				return nil, restoreUsage("the name "+strconv.Quote(m.Name)+" is no name for a folder", "restore it alone, with --name and --data-dir")
			}
			t := snapshot.RestoreTarget{Name: m.Name, DataDir: filepath.Join(o.dataDir, m.Name+".etcd"), MakeParent: true}
			if o.walDir != "" {
				t.WALDir = filepath.Join(o.walDir, m.Name+".wal")
			}
			out = append(out, t)
		case o.name == "":
			out = append(out, snapshot.RestoreTarget{Name: m.Name, DataDir: orDefault(o.dataDir, m.Name+".etcd"), WALDir: o.walDir})
		}
	}
	if o.name != "" {
		out = append(out, snapshot.RestoreTarget{Name: o.name, DataDir: orDefault(o.dataDir, o.name+".etcd"), WALDir: o.walDir})
	}
	return out, nil
}
