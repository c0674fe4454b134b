package ops

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/revclock"
)

// RevisionSampler notes which revision a cluster is at, again and again, so that
// a time to keep can become a revision. It is safe for concurrent use.
type RevisionSampler struct {
	client *cluster.Client
	keep   time.Duration
	dir    string // where the samples outlive the process; empty: nowhere
	save   bool   // and are written to
	sink   progress.Sink

	mu  sync.Mutex
	log *revclock.Log // nil before the first sample
}

// NewRevisionSampler returns a sampler for a time to keep. With save its samples
// go to the state directory, which is made if it is not there; one that can't be
// used is an error of kind Usage. Without, what is there is only read.
func NewRevisionSampler(client *cluster.Client, keep time.Duration, dir string, save bool, sink progress.Sink) (*RevisionSampler, error) {
	if dir != "" && save {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, &fault.Error{Kind: fault.Usage, Cause: "state_dir", Op: "compact", Subject: "--state-dir", Err: err}
		}
	}
	return &RevisionSampler{client: client, keep: keep, dir: dir, save: save, sink: sink}, nil
}

// Before says up to which revision everything is older than the time to keep.
func (s *RevisionSampler) Before(now time.Time) revclock.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		return revclock.Answer{}
	}
	return s.log.Before(now)
}

// Run samples until ctx ends. A sample that fails is left out, which only means
// that more is kept.
func (s *RevisionSampler) Run(ctx context.Context) {
	failing := false
	for {
		err := s.Sample(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			s.sink.Event(progress.Event{Op: "compact", Phase: "sampling revisions", Warning: true,
				Note: fmt.Sprintf("no sample: %v; what is written until the next one counts as young", err)})
		}
		failing = err != nil
		if wait(ctx, revclock.Every(s.keep)) != nil {
			return
		}
	}
}

// Sample looks once. The time is taken after the answer, so that all that is
// counted as old was written before it.
func (s *RevisionSampler) Sample(ctx context.Context) error {
	quorum, err := s.client.Quorum(ctx)
	if err != nil {
		return err
	}
	r, err := quorum.Get(ctx, compactRevKey)
	if err != nil {
		return err
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil || s.log.Cluster() != r.Header.ClusterId {
		if err := s.load(r.Header.ClusterId, now, r.Header.Revision); err != nil {
			return err
		}
	}
	s.log.Add(now, r.Header.Revision)
	if s.dir == "" || !s.save {
		return nil
	}
	return s.log.Save(s.dir, now)
}

func (s *RevisionSampler) load(id uint64, now time.Time, head int64) error {
	s.log = revclock.New(id, s.keep)
	if s.dir == "" {
		return nil
	}
	l, dropped, err := revclock.Load(s.dir, id, s.keep, now, head)
	if err != nil {
		return err
	}
	s.log = l
	note := fmt.Sprintf("%d samples read from %s, %d of them kept", l.Len()+dropped, revclock.Path(s.dir, id), l.Len())
	s.sink.Event(progress.Event{Op: "compact", Phase: "sampling revisions", State: "started", Note: note})
	return nil
}

// KnownRevisions reads what a sampler left in a state directory, for a command
// that runs once. That there is nothing is an error of kind Usage.
func KnownRevisions(ctx context.Context, client *cluster.Client, keep time.Duration, dir string) (func(time.Time) revclock.Answer, error) {
	explain := &fault.Error{Kind: fault.Usage, Cause: "no_samples", Op: "compact", Subject: "--keep-duration",
		Msg:  "etcd keeps no time with its revisions, so which one is " + keep.String() + " old can't be told without samples",
		Hint: "leave `kvd compact --schedule … --keep-duration " + keep.String() + " --state-dir DIR` running, which takes them, and give the same --state-dir here; or say it in revisions: --keep-revisions N"}
	if dir == "" {
		return nil, explain
	}
	quorum, err := client.Quorum(ctx)
	if err != nil {
		return nil, err
	}
	r, err := quorum.Get(ctx, compactRevKey)
	if err != nil {
		return nil, err
	}
	l, _, err := revclock.Load(dir, r.Header.ClusterId, keep, time.Now(), r.Header.Revision)
	if err != nil {
		return nil, err
	}
	if l.Len() == 0 {
		explain.Msg += fmt.Sprintf(", and there are none of this cluster in %s", dir)
		return nil, explain
	}
	return l.Before, nil
}
