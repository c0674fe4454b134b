package server_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"kvd/pkg/server/servertest"
)

// A database may be whole and say what a start does not take: that a newer etcd has
// written it, or that too few vote. That is refused with what to do about it, and
// nothing is called damaged.
func TestStartOnContentThatIsRefused(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{})
	if err := c.StopMember(t.Context(), 0); err != nil { // so that its files may be copied
		t.Fatal(err)
	}
	put := func(bucket, key, value string) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(value)) }
	}
	for _, tc := range []struct {
		name   string
		change func(*bbolt.Tx) error
		want   string
	}{
		{"storage of a newer etcd", put("meta", "storageVersion", "3.8.0"), "a newer etcd has written the data directory"},
		{"a newer cluster", put("cluster", "clusterVersion", "3.8.0"), "a newer etcd has written the data directory"},
		{"two learners", func(tx *bbolt.Tx) error {
			return errors.Join(put("members", "000000000000000a", `{"id":10,"peerURLs":["http://127.0.0.1:1"],"isLearner":true,"name":"l1"}`)(tx),
				put("members", "000000000000000b", `{"id":11,"peerURLs":["http://127.0.0.1:2"],"isLearner":true,"name":"l2"}`)(tx))
		}, "--max-learners (1 if it is not given)"},
		{"nobody who votes", func(tx *bbolt.Tx) error {
			id, was := tx.Bucket([]byte("members")).Cursor().First()
			return put("members", string(id), string(bytes.Replace(was, []byte(`"peerURLs"`), []byte(`"isLearner":true,"peerURLs"`), 1)))(tx)
		}, "nobody votes"},
	} {
		args := copyWithout(t, c, "no such file")
		db, err := bbolt.Open(filepath.Join(args[len(args)-1], "member", "snap", "db"), 0o600, &bbolt.Options{NoFreelistSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(tc.change), db.Close()); err != nil {
			t.Fatal(err)
		}
		code, says, all := serve(t, args...)
		if code != 5 || !strings.Contains(says, tc.want) || !strings.Contains(says, "hint: ") || strings.Contains(all, "goroutine ") {
			t.Errorf("%s: exit code %d, want 5 and %q; got:\n%s", tc.name, code, tc.want, all)
		}
	}
	if err := c.StartMember(servertest.Context(t, 30*time.Second), 0); err != nil { // for the checks at the end
		t.Error(err)
	}
}
