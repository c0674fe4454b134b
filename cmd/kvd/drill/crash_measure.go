package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/wait"
)

// sample reads a member's metrics.
func (s *stage) sample(ctx context.Context, i int) (*metrics.Sample, error) {
	return metrics.Fetch(ctx, http.DefaultClient, s.cluster.MetricsURL(i))
}

// note records what the chosen members have done until now.
func (s *crash) note(ctx context.Context) error {
	for k, i := range s.victims {
		sample, err := s.sample(ctx, i)
		if err != nil {
			return err
		}
		v := &s.r.Killed[k]
		if committed, ok := sample.Value("etcd_server_proposals_committed_total", nil); ok {
			v.Proposals = int64(committed)
		}
		if h, ok := sample.Histogram("etcd_disk_wal_fsync_duration_seconds", nil); ok {
			v.Fsyncs = int64(h.Count)
		}
		if h, ok := sample.Histogram("etcd_disk_backend_commit_duration_seconds", nil); ok {
			v.Commits = int64(h.Count)
		}
	}
	return nil
}

// logTail is how many lines of a member's log are searched for what it said when
// it started.
const logTail = 400

// noteStarts records what the members say of their start, once all of them have
// applied the same.
func (s *crash) noteStarts(ctx context.Context, took float64) error {
	view, err := s.level(ctx)
	if err != nil {
		return err
	}
	members, _, err := s.members(ctx)
	if err != nil {
		return err
	}
	for _, i := range s.victims {
		name := s.cluster.Name(i)
		st := CrashStart{Member: name, TookSeconds: took}
		m, err := view.FindMember(name)
		if err != nil {
			return err
		}
		st.Revision, st.AppliedIndex = m.Status.Revision, m.Status.AppliedIndex
		sample, err := s.sample(ctx, i)
		if err != nil {
			return err
		}
		puts, ok := sample.Value("etcd_mvcc_put_total", nil)
		if !ok {
			return &fault.Error{Kind: fault.Internal, Op: "drill crash", Subject: name, Msg: "it has no metric etcd_mvcc_put_total"}
		}
		st.Applied = int64(puts)
		st.ConsistentIndex = loggedIndex(s.cluster.LogTail(i, logTail))
		there, _, err := s.search(ctx, members[i], name)
		if err != nil {
			return members[i].Explain(ctx, "get", err)
		}
		st.share(s.tails[name], there)
		s.r.Starts = append(s.r.Starts, st)
	}
	return nil
}

// level waits until every member has applied the same and returns a view from
// after that: a member answers its status with the revision it had before it
// looked at what it has applied (Status in server/v3 etcdserver/api/v3rpc/maintenance.go).
func (s *stage) level(ctx context.Context) (cluster.View, error) {
	ctx, cancel := context.WithTimeout(ctx, sizesSettle)
	defer cancel()
	for {
		view, err := s.client.View(ctx)
		if err == nil && view.Err() == nil && sameApplied(view) {
			return s.client.View(ctx)
		}
		if werr := wait.For(ctx, commitPause); werr != nil {
			return view, &fault.Error{Kind: fault.Unavailable, Cause: "not_settled", Op: "drill",
				Msg: fmt.Sprintf("the members have not applied the same %s after the last write", sizesSettle), Err: err}
		}
	}
}

func sameApplied(view cluster.View) bool {
	for _, m := range view.Members {
		if m.Status.AppliedIndex != view.Members[0].Status.AppliedIndex || m.Status.RaftIndex != m.Status.AppliedIndex {
			return false
		}
	}
	return true
}

// loggedIndex is the consistent index that etcd says it begins with, in the last
// start of its log; 0 if it does not.
func loggedIndex(log string) uint64 {
	var last uint64
	for line := range strings.Lines(log) {
		var said struct {
			Msg   string `json:"msg"`
			Index uint64 `json:"index"`
		}
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "restore consistentIndex" {
			last = said.Index
		}
	}
	return last
}
