package snapshot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/spool"
)

func TestManifest(t *testing.T) {
	path := ManifestPath(filepath.Join(t.TempDir(), "s.db"))
	if _, err := ReadManifest(path); !errors.Is(err, fs.ErrNotExist) || fault.KindOf(err) != fault.Usage {
		t.Errorf("none: %v", err)
	}
	m := &Manifest{
		File: "s.db", SizeBytes: 4128, SHA256: strings.Repeat("a", 64), Compression: spool.None, SnapshotBytes: 4128,
		StartRevision: 7, Verified: VerifiedFull, Revision: 9, Keys: 3, KV: KVHash{Algorithm: "etcd-hashkv", Hash: 1 << 31},
		ClusterID: 0xcdf818194e3a8c32, Member: ManifestMember{ID: 0x8e9e05c52164694d, Name: "m1"}, StartedAt: time.Unix(1700000000, 0).UTC(),
	}
	to, err := createPart(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.write(to), to.commit(false), to.drop()); err != nil {
		t.Fatal(err)
	}
	got, err := ReadManifest(path)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v, %v\nwant %+v", got, err, m)
	}
	raw, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(raw), `"cluster_id": "cdf818194e3a8c32"`) {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestWhatIsNoManifest(t *testing.T) {
	for name, content := range map[string]string{
		"text": "hello", "empty": "", "other JSON": `{"format":"x","size_bytes":1}`, "cut": `{"format":"kvd-snapshot-1","size_by`,
		"without a hash": `{"format":"kvd-snapshot-1","size_bytes":1}`, "later format": `{"format":"kvd-snapshot-2"}`,
	} {
		path := filepath.Join(t.TempDir(), "s.db.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadManifest(path)
		if fault.KindOf(err) != fault.Damage || fault.CauseOf(err) != "manifest" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadManifest(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
}
