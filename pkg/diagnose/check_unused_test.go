package diagnose_test

import (
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"kvd/pkg/diagnose"
)

// What a first start leaves that has failed, as of a member that finds nobody to join, is no
// damage: etcd has made the database, with one bucket, and no log. A file like that which is
// to be a snapshot is none, and neither is one with somebody else's bucket a member's.
func TestDirectoryOfAFailedFirstStart(t *testing.T) {
	t.Parallel()
	for bucket, ids := range map[string][]string{"meta": nil, "another's": {"KVD-CORRUPT-005 critical"}} {
		dir := t.TempDir()
		path := filepath.Join(dir, "member", "snap", "db")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte(bucket)); return err }); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		belongs(t, lookAt(t, dir), ids...)
		if bucket == "meta" {
			in := &diagnose.Input{Limits: diagnose.DefaultLimits()}
			if err := in.AddFile(t.Context(), path, diagnose.DirOptions{}, discard); err != nil {
				t.Fatal(err)
			}
			belongs(t, diagnose.Diagnose(in), "KVD-CORRUPT-005 critical")
		}
	}
}
