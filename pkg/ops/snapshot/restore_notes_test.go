package snapshot_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"kvd/pkg/ops/snapshot"
)

// A member at a loopback that nobody chose serves, and cannot be joined.
func TestRestoreTellsWhoCanBeReached(t *testing.T) {
	t.Parallel()
	good, _ := fixture(t, "3.7-history")
	onHost := changed(t, good, asEtcd(), func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("members")).Put([]byte("1"), []byte(`{"id":1,"name":"cp-1","peerURLs":["https://10.0.0.1:2380"]}`))
	})
	elsewhere := oneMember()
	elsewhere.Members[0].PeerURLs = []string{"http://10.0.0.9:2380"}
	for name, tc := range map[string]struct {
		content []byte
		recipe  snapshot.Recipe
		said    bool
	}{
		"the default, of members on hosts":    {onHost, oneMember(), true},
		"the default, of members of a laptop": {good, oneMember(), false},
		"another host":                        {onHost, elsewhere, false},
	} {
		p, err := planOf(t, write(t, "s.db", tc.content), tc.recipe)
		if err != nil {
			t.Fatal(name, err)
		}
		notes := strings.Join(p.Plan.Notes, "\n")
		if strings.Contains(notes, "no other host finds m1 at http://localhost:2380") != tc.said || tc.said && !strings.Contains(notes, "cp-1=https://10.0.0.1:2380") {
			t.Errorf("%s:\n%s", name, notes)
		}
	}
}

// Who rolls an update back restores with the binary of before: etcd 3.6 ends on what 3.7
// has stored.
func TestRestoreTellsWhichServersTakeIt(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"3.7-history": "the servers have to be etcd 3.7 or later", "3.6-history": "the servers have to be etcd 3.6 or later", "3.5-history": "", "3.4-history": ""} {
		content, _ := fixture(t, name)
		p, err := planOf(t, write(t, "s.db", content), oneMember())
		if err != nil {
			t.Fatal(name, err)
		}
		notes := strings.Join(p.Plan.Notes, "\n")
		if !strings.Contains(notes, want) || want == "" && strings.Contains(notes, "the servers have to be") {
			t.Errorf("%s:\n%s", name, notes)
		}
	}
}

// k3s restores by itself, and has a key below /bootstrap/ beside those of its API server. Anybody
// else may have one, too. OpenShift, whose prefixes are its own, has a script for it.
func TestRestoreTellsWhoRestoresItself(t *testing.T) {
	t.Parallel()
	good, _ := fixture(t, "3.7-learner")
	for _, tc := range []struct {
		keys                    []string
		k3s, kubeadm, openshift bool
	}{
		{[]string{"/bootstrap/4e7a", "/registry/namespaces/default"}, true, false, false},
		{[]string{"/registry/namespaces/default"}, false, true, false},
		{[]string{"/bootstrap/app.css"}, false, false, false},
		{[]string{"/kubernetes.io/namespaces/default", "/openshift.io/routes/ns/r"}, false, false, true},
	} {
		content := changed(t, good, asEtcd(), func(tx *bolt.Tx) error {
			var err error
			for _, k := range tc.keys {
				err = errors.Join(err, putNext(tx.Bucket([]byte("key")), k))
			}
			return err
		})
		p, err := planOf(t, write(t, "s.db", content), oneMember())
		if err != nil {
			t.Fatal(tc.keys, err)
		}
		notes := strings.Join(p.Plan.Notes, "\n")
		if strings.Contains(notes, "k3s") != tc.k3s || strings.Contains(notes, "kubeadm") != tc.kubeadm ||
			strings.Contains(notes, "cluster-restore.sh") != tc.openshift || strings.Contains(notes, "--datastore-endpoint") != tc.k3s {
			t.Errorf("%q:\n%s", tc.keys, notes)
		}
	}
}

// putNext writes a key at the revision behind the last one.
func putNext(b *bolt.Bucket, key string) error {
	last, _ := b.Cursor().Last()
	at := int64(binary.BigEndian.Uint64(last)) + 1 //nolint:gosec // a revision
	raw, err := proto.Marshal(&mvccpb.KeyValue{Key: []byte(key), Value: []byte("x"), CreateRevision: at, ModRevision: at, Version: 1})
	rev := append(binary.BigEndian.AppendUint64(nil, uint64(at)), "_\x00\x00\x00\x00\x00\x00\x00\x00"...) //nolint:gosec // not negative
	return errors.Join(err, b.Put(rev, raw))
}
