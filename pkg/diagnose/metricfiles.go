package diagnose

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
)

// recorded is what one file said.
type recorded struct {
	path string
	id   uint64
	at   time.Time
	s    *metrics.Sample
}

// AddMetrics reads files with what members' /metrics said. Two files of one member
// are two samples, the older one first by what is in them; a third and more are not
// looked at. What a status would have told is taken from the metrics. A file without
// etcd's series is an error of kind Usage, and so are two that cannot be two samples
// of one process.
func (in *Input) AddMetrics(paths []string) error {
	by := map[uint64][]recorded{}
	for _, path := range paths {
		r, err := readRecorded(path)
		if err != nil {
			return err
		}
		by[r.id] = append(by[r.id], r)
	}
	before, now := &Moment{Metrics: map[uint64]*metrics.Sample{}}, &Moment{Metrics: map[uint64]*metrics.Sample{}}
	for id, all := range by {
		slices.SortStableFunc(all, func(a, b recorded) int { return a.at.Compare(b.at) })
		last := all[len(all)-1]
		if len(all) > 1 {
			older, newer, err := inOrder(all[len(all)-2], last)
			if err != nil {
				return err
			}
			before.add(id, older)
			now.add(id, newer)
			continue
		}
		now.add(id, last)
		in.Missing = append(in.Missing, Missing{Need: NeedDelta, Subject: last.path, Why: "there is one sample: what a process has counted since its start says nothing of now",
			Hint: "take a second one a minute later, and give both with --metrics"})
	}
	in.Now, in.Recorded = now, true
	if len(before.Metrics) > 0 {
		in.Before = before
	}
	return nil
}

func readRecorded(path string) (recorded, error) {
	f, err := os.Open(path)
	if err != nil {
		return recorded{}, fault.OfFile(op, path, "metrics_file", err)
	}
	defer f.Close() //nolint:errcheck // it was read
	info, err := f.Stat()
	if err != nil {
		return recorded{}, fault.OfFile(op, path, "metrics_file", err)
	}
	if info.Size() > metrics.MaxBody {
		return recorded{}, &fault.Error{Kind: fault.Usage, Cause: "metrics_file", Op: op, Subject: path, Msg: "it is larger than any server's metrics"}
	}
	r := recorded{path: path, id: uint64(1 << 40), at: info.ModTime()}
	if r.s, err = metrics.Parse(f, r.at); err != nil {
		return r, &fault.Error{Kind: fault.Usage, Cause: "metrics_file", Op: op, Subject: path, Err: err, Msg: "these are no metrics",
			Hint: "curl -s http://127.0.0.1:2381/metrics > FILE"}
	}
	if !ofEtcd(r.s) {
		return r, &fault.Error{Kind: fault.Usage, Cause: "no_etcd_series", Op: op, Subject: path, Msg: "no etcd series in it",
			Hint: "a curl that fails leaves an empty file: curl -fsS http://127.0.0.1:2381/metrics > FILE says why; an API server's own metrics are not etcd's"}
	}
	for _, id := range r.s.LabelValues("etcd_server_id", "server_id") {
		if n, err := strconv.ParseUint(id, 16, 64); err == nil {
			r.id = n
		}
	}
	return r, nil
}

// add makes a member of a sample.
func (m *Moment) add(id uint64, r recorded) {
	m.Metrics[id] = r.s
	num := func(name string) float64 {
		v, _ := r.s.Value(name, nil)
		return v
	}
	s := &cluster.Status{DBSize: int64(num(metrics.DBSize)), DBInUse: int64(num(metrics.DBInUse)), Revision: int64(num("etcd_debugging_mvcc_current_revision")),
		RaftIndex: uint64(num("etcd_server_proposals_committed_total")), AppliedIndex: uint64(num("etcd_server_proposals_applied_total"))}
	if q, ok := r.s.Value(metrics.QuotaBytes, nil); ok {
		s.Quota, s.QuotaKnown = int64(q), true
	}
	for _, v := range r.s.LabelValues("etcd_server_version", "server_version") {
		s.Version = v
	}
	s.Learner = num("etcd_server_is_learner") > 0
	if num(metrics.IsLeader) > 0 {
		m.View.Leader, s.Leader = id, id
	}
	m.View.Members = append(m.View.Members, cluster.Member{ID: id, Name: r.path, At: r.at, Status: s, Learner: s.Learner})
	slices.SortFunc(m.View.Members, func(a, b cluster.Member) int { return cmp.Compare(a.ID, b.ID) })
	if m.View.At.Before(r.at) {
		m.View.At = r.at
	}
}
