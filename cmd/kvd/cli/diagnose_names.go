package cli

import (
	"errors"
	"os"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/fault"
)

// checkNames refuses what is not there, and a version that is unknown, before anything
// is sent: a look at a cluster takes its interval. Of --backups a finding tells.
func (o *diagnoseFiles) checkNames() error {
	var errs []error
	if o.target != "" {
		errs = append(errs, diagnose.CheckTarget(o.target))
	}
	look := func(flag string, wantDir bool, paths ...string) {
		for _, path := range paths {
			info, err := os.Stat(path)
			switch {
			case err != nil:
				errs = append(errs, fault.OfFile("diagnose", flag+" "+path, "file", err))
			case wantDir && !info.IsDir():
				errs = append(errs, &fault.Error{Kind: fault.Usage, Cause: "no_directory", Op: "diagnose", Subject: flag + " " + path, Msg: "it is no directory"})
			}
		}
	}
	look("--data-dir", true, o.dirs...)
	look("--disk", true, o.disks...)
	look("--snapshot", false, o.snapshots...)
	look("--metrics", false, o.metrics...)
	look("--manifest", false, o.manifests...)
	if o.WALDir != "" {
		look("--wal-dir", true, o.WALDir)
	}
	return errors.Join(errs...)
}
