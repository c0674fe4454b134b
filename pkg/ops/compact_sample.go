package ops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/revclock"
	"kvd/pkg/ops/wait"
)

// RevisionSampler notes which revision a cluster is at, again and again, so that
// a time to keep can become a revision. It is safe for concurrent use.
//
// What it keeps in a state directory is a convenience for the time after a
// restart: to lose it only means that more is kept. So nothing about it ends a
// sampler that has begun.
type RevisionSampler struct {
	client *cluster.Client
	keep   time.Duration
	dir    string // where the samples outlive the process; empty: nowhere
	sink   progress.Sink

	mu      sync.Mutex
	save    bool          // write to dir
	log     *revclock.Log // nil before the first sample
	sampled time.Time     // when the latest sample was taken
	saved   time.Time     // when samples were last written to dir
	looks   troubles
	writes  troubles
}

// NewRevisionSampler returns a sampler for a time to keep. With save its samples
// go to the state directory, which is made if it is not there; one that can't be
// used is an error of kind Usage, also without save, which leaves nothing behind.
func NewRevisionSampler(client *cluster.Client, keep time.Duration, dir string, save bool, sink progress.Sink) (*RevisionSampler, error) {
	s := &RevisionSampler{client: client, keep: keep, dir: dir, save: save && dir != "", sink: sink}
	if dir == "" {
		return s, nil
	}
	if err := revclock.TryDir(dir, save); err != nil && !revclock.Full(err) {
		return nil, err
	} // a full disk is warned of by the first sample
	return s, nil
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

// Times say when the latest sample was taken, and when samples were last written
// to the state directory; zero times: never.
func (s *RevisionSampler) Times() (sampled, saved time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sampled, s.saved
}

// Run samples until ctx ends.
func (s *RevisionSampler) Run(ctx context.Context) {
	for {
		_ = s.Sample(ctx) // it has told
		if wait.For(ctx, revclock.Every(s.keep)) != nil {
			return
		}
	}
}

// Sample looks once, and writes down what it has. It warns of what fails, and
// says when it works again; the error is that of the look: a sample that could
// not be written is one all the same.
func (s *RevisionSampler) Sample(ctx context.Context) error {
	id, rev, err := s.look(ctx)
	if ctx.Err() != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(s.looks.next(err), "no sample: %v; what is written until the next one counts as young", "the cluster is sampled again", err)
	if err != nil {
		return err
	}
	// The time is taken after the answer, so that all that is counted as old was
	// written before it.
	now := time.Now()
	if s.log == nil || s.log.Cluster() != id {
		s.begin(id, now, rev)
	}
	s.log.Add(now, rev)
	s.sampled = now
	if s.save {
		err := s.write(now)
		s.tell(s.writes.next(err), "the samples are not kept through a restart: %v; as long as this process lives it has them all the same",
			"the samples are written to "+s.dir+" again", err)
	}
	return nil
}

func (s *RevisionSampler) look(ctx context.Context) (id uint64, rev int64, err error) {
	quorum, err := s.client.Quorum(ctx)
	if err != nil {
		return 0, 0, err
	}
	r, err := quorum.Get(ctx, keys.CompactRevKey)
	if err != nil {
		return 0, 0, err
	}
	return r.Header.ClusterId, r.Header.Revision, nil
}

// begin reads what an earlier process left of a cluster. A file that can't be
// read or is none of kvd's is moved aside, and never written over.
func (s *RevisionSampler) begin(id uint64, now time.Time, head int64) {
	s.log = revclock.New(id, s.keep)
	if s.dir == "" {
		return
	}
	l, dropped, err := revclock.Load(s.dir, id, s.keep, now, head)
	if err == nil {
		s.log = l
		s.note(false, "%d samples read from %s, %d of them kept", l.Len()+dropped, revclock.Path(s.dir, id), l.Len())
		return
	}
	what := "a run would move it aside and begin anew"
	if s.save {
		var aside string
		var failed error
		if aside, failed = revclock.SetAside(s.dir, id, now); failed == nil {
			what = "it is now called " + aside + ", and sampling begins anew"
		} else {
			s.save = false
			what = fmt.Sprintf("sampling begins anew, and is not kept through a restart: %v", failed)
		}
	}
	s.note(true, "earlier samples can't be used: %v; %s", err, what)
}

// write writes the samples to the state directory, which somebody may have
// removed.
func (s *RevisionSampler) write(now time.Time) error {
	err := os.MkdirAll(s.dir, 0o755)
	if err == nil {
		err = s.log.Save(s.dir, now)
	}
	if err == nil {
		s.saved = now
	}
	return err
}

func (s *RevisionSampler) note(warn bool, format string, args ...any) {
	e := progress.Event{Op: "compact", Phase: "sampling revisions", Note: fmt.Sprintf(format, args...), Warning: warn}
	if !warn {
		e.State = "started"
	}
	s.sink.Event(e)
}

func (s *RevisionSampler) tell(is change, bad, good string, err error) {
	switch is {
	case trouble:
		s.note(true, bad, err)
	case recovered:
		s.note(false, "%s", good)
	}
}

// troubles remembers what went wrong, so that it is told once, and again when it
// is something else.
type troubles struct{ last string }

type change int

const (
	same change = iota
	trouble
	recovered
)

func (t *troubles) next(err error) change {
	was := t.last
	t.last = ""
	if err != nil {
		t.last = string(fault.KindOf(err)) + " " + fault.CauseOf(err)
		var errno syscall.Errno // the text around it has names that change from time to time
		if errors.As(err, &errno) {
			t.last += " " + errno.Error()
		}
	}
	switch {
	case t.last == was:
		return same
	case err != nil:
		return trouble
	}
	return recovered
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
	r, err := quorum.Get(ctx, keys.CompactRevKey)
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
