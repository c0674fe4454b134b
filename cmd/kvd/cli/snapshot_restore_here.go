package cli

import (
	"path/filepath"
	"strconv"

	"kvd/pkg/ops/snapshot"
)

// here says which members are restored by this run, and where to.
func (o *snapshotRestoreOptions) here(r snapshot.Recipe) ([]snapshot.RestoreTarget, error) {
	if err := o.noneEmpty(); err != nil {
		return nil, err
	}
	switch {
	case o.writePlan != "":
		if o.all || o.name != "" || o.dataDir != "" || o.walDir != "" || o.planFile != "" {
			return nil, restoreUsage("--write-plan restores nothing, so that --plan, --name, --all, --data-dir and --wal-dir have no meaning with it", "")
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

// noneEmpty refuses flags that are given as nothing, as a script does whose variable
// is not set: their defaults are not what it wanted.
func (o *snapshotRestoreOptions) noneEmpty() error {
	for _, f := range []struct{ flag, value string }{
		{"name", o.name}, {"data-dir", o.dataDir}, {"wal-dir", o.walDir}, {"write-plan", o.writePlan}, {"plan", o.planFile}, {"initial-cluster-token", o.token},
	} {
		if f.value == "" && o.given(f.flag) {
			return restoreUsage("--"+f.flag+" is empty", "leave it out, or give a value: was a variable not set?")
		}
	}
	return nil
}
