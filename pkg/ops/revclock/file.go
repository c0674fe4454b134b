package revclock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"kvd/pkg/ops/atomicfile"
	"kvd/pkg/ops/fault"
)

// format is what a file begins with. One of another format is never written over:
// see SetAside.
const format = "kvd-revclock-1"

// maxFile bounds what is read. A day by the minute is 60 KB.
const maxFile = 16 << 20

type fileBody struct {
	Format  string       `json:"format"`
	Cluster string       `json:"cluster_id"`
	Samples []fileSample `json:"samples"`
}

type fileSample struct {
	At  time.Time `json:"at"`
	Rev int64     `json:"revision"`
}

// Path is where the samples of a cluster are kept in a state directory.
func Path(dir string, cluster uint64) string {
	return filepath.Join(dir, "revisions-"+strconv.FormatUint(cluster, 16)+".json")
}

// Load reads the samples of a cluster from dir. No file is an empty log; head is
// the cluster's newest revision now, 0 if not known. Samples that can't be true
// (from the future, above head, of another cluster, out of order) are dropped
// and counted: to forget is safe, it only means to keep more.
func Load(dir string, cluster uint64, keep time.Duration, now time.Time, head int64) (l *Log, dropped int, err error) {
	l = New(cluster, keep)
	path := Path(dir, cluster)
	raw, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, 0, nil
	}
	if err != nil {
		return nil, 0, failed("read", path, err)
	}
	var body fileBody
	if err := json.Unmarshal(raw, &body); err != nil || body.Format != format {
		return nil, 0, &fault.Error{Kind: fault.Damage, Cause: "state_file", Op: "read", Subject: path, Err: err,
			Msg: "this is no file of samples that kvd wrote", Hint: "move it away. The schedule that samples does so by itself and begins anew: it then keeps everything until it has sampled for long enough"}
	}
	if body.Cluster != strconv.FormatUint(cluster, 16) {
		return l, len(body.Samples), nil
	}
	last := sample{}
	for _, s := range body.Samples {
		ok := s.At.Before(now) && s.At.After(last.at) && s.Rev >= last.rev && (head == 0 || s.Rev <= head)
		if !ok {
			dropped++
			continue
		}
		last = sample{s.At, s.Rev}
		l.samples = append(l.samples, last)
	}
	return l, dropped, nil
}

func readBounded(path string) ([]byte, error) {
	if st, err := os.Stat(path); err != nil {
		return nil, err
	} else if st.Size() > maxFile {
		return nil, fmt.Errorf("%d bytes is too large for a file of samples", st.Size())
	}
	return os.ReadFile(path)
}

// Save writes the samples so that either the old or the new file is there
// whatever happens.
func (l *Log) Save(dir string, now time.Time) error {
	l.mu.Lock()
	body := fileBody{Format: format, Cluster: strconv.FormatUint(l.cluster, 16)}
	for _, s := range l.samples {
		// The age is sure, the wall clock of then may have been wrong.
		body.Samples = append(body.Samples, fileSample{now.Round(0).Add(-now.Sub(s.at)).UTC(), s.rev})
	}
	l.mu.Unlock()
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	path := Path(dir, l.cluster)
	if err := atomicfile.Write(path, append(raw, '\n'), 0o600); err != nil {
		return failed("write", path, err)
	}
	return nil
}
