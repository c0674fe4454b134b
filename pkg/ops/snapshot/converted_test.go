package snapshot_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	bolt "go.etcd.io/bbolt"
	etcdutl "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"kvd/pkg/ops/snapshot"
)

// What terminals, shells and other commands make of a snapshot on its way is told as
// that, with the command that has it back where nothing is lost.
func TestConvertedOnItsWay(t *testing.T) {
	t.Parallel()
	good, _ := fixture(t, "3.7-history")
	recoded := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(string(latin1(good)))) {
		recoded = append(recoded, byte(u), byte(u>>8))
	}
	for name, tc := range map[string]struct {
		content []byte
		class   snapshot.Class
		kind    string // class of the first finding
		back    string // in the hint, between it and " > snapshot.db"
	}{
		"a terminal":            {bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")), snapshot.ClassConverted, "", "perl -pe"},
		"base64":                {[]byte(base64.StdEncoding.EncodeToString(good)), snapshot.ClassConverted, "base64", "base64 -d"},
		"the output of etcdctl": {append([]byte("Snapshot saved at /tmp/x\n"), good...), snapshot.ClassExtraBytes, "preceded", "tail -c +26"},
		"UTF-16":                {recoded, snapshot.ClassConverted, "recoded", ""},
		"UTF-8 of Latin-1":      {[]byte(string(latin1(good))), snapshot.ClassConverted, "recoded", ""},
		"UTF-8 with losses":     {bytes.ToValidUTF8(good, []byte("\uFFFD")), snapshot.ClassConverted, "recoded", ""},
		"another database":      {append([]byte("SQLite format 3\x00"), make([]byte, 8176)...), snapshot.ClassNotASnapshot, "sqlite", ""},
		"a .snap file of raft":  {[]byte("\x08\x96\xf1\x83\x0d\x12\x1a\x0a\x0a{}\x12\x0c\x08\x01\x12\x08\x08\x81\x88\x01\x10\x02\x18\x6b" + strings.Repeat("\x00\x01", 100)), snapshot.ClassNotASnapshot, "raft_snapshot", ""},
		"openssl":               {append([]byte("Salted__"), good[64:]...), snapshot.ClassNotASnapshot, "openssl", ""},
	} {
		file := "s.db"
		if tc.kind == "raft_snapshot" {
			file = "0000000000000002-000000000000006b.snap"
		}
		v := verify(t, file, tc.content)
		if v.Verdict != snapshot.NotRestorable || v.Class != tc.class || tc.kind != "" && v.Findings[0].Class != tc.kind {
			t.Errorf("%s: %s %s %+v", name, v.Verdict, v.Class, v.Findings)
			continue
		}
		at := strings.Index(v.Hint, tc.back)
		if at < 0 || (tc.back != "") != strings.Contains(v.Hint, " > snapshot.db") {
			t.Errorf("%s: hint %q", name, v.Hint)
			continue
		}
		if tc.back == "" {
			continue
		}
		command, _, _ := strings.Cut(v.Hint[at:], " > snapshot.db")
		got, err := exec.Command("sh", "-c", strings.Replace(command, "FILE", write(t, "FILE", tc.content), 1)).Output()
		if err != nil || !bytes.Equal(got, good) {
			t.Errorf("%s: %s: %v, %d bytes of %d", name, command, err, len(got), len(good))
		}
	}
}

func latin1(b []byte) []rune {
	out := make([]rune, len(b))
	for i, c := range b {
		out[i] = rune(c)
	}
	return out
}

// A tool that opens a snapshot for writing changes its hash and none of its values:
// that is told, and the manifest's digest proves it.
func TestOpenedForWriting(t *testing.T) {
	t.Parallel()
	good, _ := fixture(t, "3.7-history")
	hash := good[len(good)-32:]
	opened := func(times int) *snapshot.Verification {
		t.Helper()
		path := write(t, "s.db", good[:len(good)-32])
		for range times {
			o := asEtcd()
			db, err := bolt.Open(path, 0o600, &o)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.Update(func(tx *bolt.Tx) error { return nil }), db.Close()); err != nil {
				t.Fatal(err)
			}
		}
		return verify(t, "s.db", append(contentOf(t, path), hash...))
	}
	for times := 1; times <= 4; times++ {
		if v := opened(times); v.Class != snapshot.ClassHashMismatch || !strings.Contains(v.Summary, "opened for writing") {
			t.Errorf("%d times: %s %s", times, v.Class, v.Summary)
		}
	}
	flipped := bytes.Clone(good)
	flipped[bytes.Index(flipped, []byte("/last"))+8] ^= 1
	if v := verify(t, "s.db", flipped); v.Class != snapshot.ClassHashMismatch || strings.Contains(v.Summary, "the file was opened for writing since") {
		t.Errorf("a flipped bit: %s %s", v.Class, v.Summary)
	}
}

// A start ends on a cluster version above its own, whatever the storage version is; and
// it gives no end to keys whose lease is not there.
func TestWhatAStartMakesOfVersionsAndLeases(t *testing.T) {
	t.Parallel()
	good, _ := fixture(t, "3.7-history")
	put := func(bucket, key, value string) []byte {
		return changed(t, good, asEtcd(), func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(value)) })
	}
	for version, class := range map[string]snapshot.Class{"3.8.0": snapshot.ClassVersion, "4.0.0": snapshot.ClassVersion, "3.7.0": snapshot.ClassWhole, "3.6.0": snapshot.ClassWhole} {
		if v := verify(t, "s.db", put("cluster", "clusterVersion", version)); v.Class != class {
			t.Errorf("cluster version %s: %s %s", version, v.Class, v.Summary)
		}
	}
	v := verify(t, "s.db", good)
	if v.Content.Leases.KeysWithout != 0 || v.Content.Leases.Keys == 0 {
		t.Fatalf("%+v", v.Content.Leases)
	}
	want := v.Content.Leases.Keys
	v = verify(t, "s.db", changed(t, good, asEtcd(), func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists([]byte("lease"))
		return errors.Join(err, tx.DeleteBucket([]byte("lease")))
	}))
	if v.Verdict != snapshot.Restorable || v.Content.Leases.KeysWithout != want || len(v.Findings) != 1 || v.Findings[0].Class != "leases_missing" {
		t.Errorf("%s, %+v, %+v", v.Verdict, v.Content.Leases, v.Findings)
	}
}

// Of a file in which nothing but members' records is damaged no key is lost, and etcdutl
// restores it; of any other record that is not said.
func TestDamagedMembersCostNoKey(t *testing.T) {
	t.Parallel()
	good, _ := fixture(t, "3.7-history")
	for bucket, said := range map[string]bool{"members": true, "auth": false} {
		key := map[string]string{"members": "1", "auth": "authRevision"}[bucket]
		damaged := changed(t, good, asEtcd(), func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte("{")) })
		v := verify(t, "s.db", damaged)
		if v.Class != snapshot.ClassBadRecords || strings.Contains(v.Hint, "no key is lost") != said {
			t.Errorf("%s: %s %s %q", bucket, v.Verdict, v.Class, v.Hint)
			continue
		}
		dir := filepath.Join(t.TempDir(), "restored")
		if !said {
			continue
		}
		err := etcdutl.NewV3(zap.NewNop()).Restore(etcdutl.RestoreConfig{SnapshotPath: write(t, "s.db", damaged), OutputDataDir: dir,
			Name: "m1", PeerURLs: []string{"http://localhost:2380"}, InitialCluster: "m1=http://localhost:2380", InitialClusterToken: "t"})
		if err != nil {
			t.Fatalf("etcdutl: %v", err)
		}
		if v := verify(t, "db", contentOf(t, filepath.Join(dir, "member", "snap", "db"))); v.Class != snapshot.ClassRawCopy {
			t.Errorf("restored: %s %s", v.Class, v.Summary)
		}
	}
}

func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
