package main

import "path/filepath"

// saving compares how long it takes until a snapshot is on the disk: beside
// etcdctl, which checks nothing, with the hash alone, and with all of it checked.
func (b bench) saving(s *server, dir string) ([]figure, error) {
	save := func(verify string) func() (sample, error) {
		return func() (sample, error) {
			return inEmptyFolder(dir, func(out string) [][]string {
				return [][]string{{b.kvd, "snapshot", "save", filepath.Join(out, "s.db"), "--endpoints", s.endpoint, "--verify", verify, "--progress", "none"}}
			})
		}
	}
	stock := func() (sample, error) {
		return inEmptyFolder(dir, func(out string) [][]string {
			return [][]string{{filepath.Join(b.reference, "etcdctl"), "snapshot", "save", filepath.Join(out, "s.db"), "--endpoints", s.endpoint}}
		})
	}
	took, err := alternate(b.runs, save("hash"), stock, save("full"))
	if err != nil {
		return nil, err
	}
	theirs := measuredCommand{"snapshot_save_etcdctl", "etcdctl snapshot save", took[1]}
	note := b.note("from a server of kvd's with its database in the page cache, nothing else to write")
	return append(versus(measuredCommand{"snapshot_save_hash", "kvd snapshot save --verify hash", took[0]}, theirs, note),
		versus(measuredCommand{"snapshot_save", "kvd snapshot save", took[2]}, theirs, note)...), nil
}
