package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"kvd/pkg/ops/fault"
)

// manifestFormat is what a manifest begins with. Fields may be added to it; a
// change of meaning is another format.
const manifestFormat = "kvd-snapshot-1"

// maxManifest bounds what is read. A real one has about 2 KB.
const maxManifest = 1 << 20

// How a saved snapshot was checked.
const (
	VerifiedFull = "full" // hash, pages and records: what Verify looks at
	VerifiedHash = "hash" // only the SHA-256 that the server sends behind the pages
)

// ManifestState says what the manifest beside a file is.
type ManifestState string

// The states of a manifest.
const (
	ManifestAbsent     ManifestState = "absent"
	ManifestMatches    ManifestState = "matches"
	ManifestMismatch   ManifestState = "mismatch"   // it is of other bytes
	ManifestUnreadable ManifestState = "unreadable" // there is something, and it is no manifest
)

// Manifest says what a stored snapshot is. It lies beside it, at ManifestPath.
// The names are a contract, see docs/formats/snapshot.md.
type Manifest struct {
	Format string `json:"format"`
	File   string `json:"file,omitempty"` // its name without the folder; empty where it went to a pipe

	// The bytes as they are stored.
	SizeBytes   int64  `json:"size_bytes"`
	SHA256      string `json:"sha256"`      // as sha256sum shows it
	Compression string `json:"compression"` // spool.None or spool.Zstd
	// The snapshot inside, pages and hash: the same where it is not compressed.
	SnapshotBytes  int64  `json:"snapshot_bytes"`
	SnapshotSHA256 string `json:"snapshot_sha256"`
	DataSHA256     string `json:"data_sha256"` // of the pages: what etcd stores behind them

	// StartRevision was the cluster's when the save began, read through the
	// quorum; 0 where that was not asked for. The snapshot is not older.
	StartRevision   int64  `json:"start_revision,omitempty"`
	Verified        string `json:"verified"` // VerifiedFull or VerifiedHash
	Revision        int64  `json:"revision"` // left out where only the hash was checked, like all that follows to KV
	CompactRevision int64  `json:"compact_revision"`
	Keys            int64  `json:"keys"`
	Revisions       int64  `json:"revisions"`
	ConsistentIndex uint64 `json:"consistent_index"`
	Term            uint64 `json:"term"`
	KV              KVHash `json:"kv"`

	ClusterID      ID             `json:"cluster_id"`
	Member         ManifestMember `json:"member"`
	ClusterVersion string         `json:"cluster_version"`
	StorageVersion string         `json:"storage_version"` // empty before 3.6, and in the first seconds of a member's life
	ServerVersion  string         `json:"server_version"`
	KvdVersion     string         `json:"kvd_version"`

	StartedAt time.Time `json:"started_at"` // the moment of the snapshot is between the two
	EndedAt   time.Time `json:"ended_at"`
}

// MarshalJSON leaves out what is not known where only the hash was checked.
func (m Manifest) MarshalJSON() ([]byte, error) {
	type all Manifest // without this method
	if m.Verified != VerifiedHash {
		return json.Marshal(all(m))
	}
	type none = *struct{}
	return json.Marshal(struct {
		all
		Revision        none `json:"revision,omitempty"`
		CompactRevision none `json:"compact_revision,omitempty"`
		Keys            none `json:"keys,omitempty"`
		Revisions       none `json:"revisions,omitempty"`
		ConsistentIndex none `json:"consistent_index,omitempty"`
		Term            none `json:"term,omitempty"`
		KV              none `json:"kv,omitempty"`
		ClusterVersion  none `json:"cluster_version,omitempty"`
	}{all: all(m)})
}

// ManifestMember is the member that a snapshot is from.
type ManifestMember struct {
	ID       ID     `json:"id"`
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	Role     string `json:"role"`
}

// ManifestPath is where the manifest of a snapshot lies: beside it, with .json
// behind its name.
func ManifestPath(snapshot string) string { return snapshot + ".json" }

// write puts the manifest on disk, where it gets its name later.
func (m *Manifest) write(to *part) error {
	m.Format = manifestFormat
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if _, err = to.Write(append(raw, '\n')); err == nil {
		err = to.Sync()
	}
	if err != nil {
		return fileError("write manifest", to.dest, err)
	}
	return nil
}

// ReadManifest reads a manifest. Where there is none, fs.ErrNotExist is in the
// error; a file that is no manifest is fault.Damage with cause "manifest".
func ReadManifest(path string) (*Manifest, error) {
	const op = "read manifest"
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError(op, path, err)
	}
	defer f.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, fileError(op, path, err)
	}
	m := &Manifest{}
	err = json.Unmarshal(raw, m)
	switch {
	case err == nil && m.Format != manifestFormat:
		err = fmt.Errorf("its format is %q, and this kvd reads %q", m.Format, manifestFormat)
	case err == nil && (len(m.SHA256) != 64 || m.SizeBytes <= 0):
		err = errors.New("size or sha256 is missing")
	}
	if err != nil {
		return nil, &fault.Error{Kind: fault.Damage, Cause: "manifest", Op: op, Subject: path, Err: err,
			Hint: "`kvd snapshot verify` judges the snapshot without its manifest; move the manifest away if it is another program's"}
	}
	return m, nil
}
