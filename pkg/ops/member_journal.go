package ops

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"kvd/pkg/ops/atomicfile"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// replaceRecord is what a replacement must not forget: between the removal of the
// old member and the addition of the new one nothing in the cluster tells that
// there was one, nor where.
type replaceRecord struct {
	ClusterID  string    `json:"cluster_id"`
	BegunAt    time.Time `json:"begun_at"`
	OldID      string    `json:"old_id"`
	OldName    string    `json:"old_name"`
	OldLearner bool      `json:"old_learner,omitempty"`
	NewName    string    `json:"new_name"`
	PeerURLs   []string  `json:"peer_urls"`
	ClientURLs []string  `json:"client_urls,omitempty"`
}

// names reports whether the record is about what the user calls the member.
func (r *replaceRecord) names(s string) bool {
	id, err := cluster.ParseID(s)
	return s == r.OldName || (err == nil && id == r.oldID())
}

func (r *replaceRecord) oldID() uint64 {
	id, _ := cluster.ParseID(r.OldID) // written by us; 0 is no member
	return id
}

func (r *replaceRecord) same(o *replaceRecord) bool {
	return o != nil && r.OldID == o.OldID && r.NewName == o.NewName && slices.Equal(r.PeerURLs, o.PeerURLs)
}

// replaceJournal keeps the record of the replacement under way in a cluster, one
// at a time, as a file.
type replaceJournal struct{ dir, path string }

func journalOf(dir string, clusterID uint64) replaceJournal {
	return replaceJournal{dir: dir, path: filepath.Join(dir, "member-replace-"+cluster.FormatID(clusterID)+".json")}
}

// load returns the record, nil if there is none.
func (j replaceJournal) load() (*replaceRecord, error) {
	raw, err := os.ReadFile(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, j.failed(err)
	}
	var r replaceRecord
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, j.garbled(err)
	}
	if r.oldID() == 0 || len(r.PeerURLs) == 0 || r.NewName == "" {
		return nil, j.garbled(errors.New("the old member, the new name or the peer URLs are missing"))
	}
	return &r, nil
}

// save writes the record so that it is there, whole, after a power cut.
func (j replaceJournal) save(r *replaceRecord) error {
	if was, err := j.load(); err == nil && r.same(was) {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return j.failed(err)
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return j.failed(err)
	}
	if err := atomicfile.Write(j.path, append(raw, '\n'), 0o600); err != nil {
		return j.failed(err)
	}
	return nil
}

// drop removes the record, and what a run that was killed while it wrote it has left.
func (j replaceJournal) drop() error {
	if err := atomicfile.Sweep(j.path); err != nil {
		return j.failed(err)
	}
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return j.failed(err)
	}
	return nil
}

// garbled is the error of a file that is there and tells nothing.
func (j replaceJournal) garbled(err error) error {
	return &fault.Error{Kind: fault.Refused, Cause: "state_dir", Op: "member replace", Subject: j.path, Err: err,
		Msg:  "is no record of a replacement that can be read",
		Hint: "see in `kvd member list` whether a replacement was interrupted, which kvd member add NAME --peer-urls URL finishes then; move the file away"}
}

func (j replaceJournal) failed(err error) error {
	return &fault.Error{Kind: fault.Refused, Cause: "state_dir", Op: "member replace", Subject: j.path, Err: err,
		Msg:  "the record of the replacement, with which an interrupted one is finished, can't be kept there",
		Hint: "give a folder that can be written with --state-dir"}
}
