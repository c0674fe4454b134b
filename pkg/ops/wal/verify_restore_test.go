package wal_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// An etcdctl of 3.4 leaves the snapshot's members in the database that it restores. Be the
// restored member one of them or none: 3.7 goes by them, and waits for a leader.
func TestVerifyARestoreByAnOldEtcdctl(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	puts(t, c.Client(t), 20)
	command := local.Command{Path: servertest.Binary(t), Args: []string{"serve"}}
	root := t.TempDir()
	file := filepath.Join(root, "s.db")
	kvd := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(servertest.Binary(t), args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	kvd("snapshot", "save", file, "--endpoints", c.Endpoint(0))
	for _, tc := range []struct {
		name  string
		alien bool
	}{{"one of the snapshot's members", false}, {"none of them", true}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(root, filepath.Base(t.Name()))
			old := &trial{t, &victim{}, root, filepath.Join(root, "m1", "data")}
			old.must(os.MkdirAll(filepath.Dir(old.data), 0o700))
			kvd("snapshot", "restore", file, "--data-dir", old.data, "--yes")
			whole, err := wal.Verify(t.Context(), old.data, wal.VerifyOptions{})
			old.must(err)
			if whole.Verdict.Outcome != wal.Starts {
				t.Fatalf("restored by kvd: %+v", whole.Verdict)
			}
			old.edit(func(tx *bbolt.Tx) error {
				b := tx.Bucket([]byte("members"))
				err := errors.Join(tx.Bucket([]byte("meta")).Delete([]byte("storageVersion")),
					b.Put([]byte("000000000000000a"), []byte(`{"id":10,"peerURLs":["http://127.0.0.1:1"],"name":"m2"}`)),
					b.Put([]byte("000000000000000b"), []byte(`{"id":11,"peerURLs":["http://127.0.0.1:2"],"name":"m3"}`)))
				if tc.alien {
					err = errors.Join(err, b.Delete([]byte(whole.Member.String())))
				}
				return err
			})
			v, err := wal.Verify(t.Context(), old.data, wal.VerifyOptions{})
			old.must(err)
			if f := v.Worst(); v.Verdict.Outcome != wal.Silent || f == nil || f.Cause != wal.CauseOldRestore || len(v.Findings) != 1 {
				t.Errorf("%+v, %+v", v.Verdict, v.Findings)
			}
			old.hold(v, command)
		})
	}
}
