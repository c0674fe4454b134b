// Package revclock remembers which revision a cluster was at, at which time.
// etcd has no clock in its history: "keep the last hour" can only be answered by
// somebody who has looked for an hour.
package revclock

import (
	"slices"
	"sync"
	"time"
)

// Log is a list of samples, oldest first. It is safe for concurrent use.
//
// While a process lives its own monotonic clock tells how old a sample is, so a
// wall clock that is set changes nothing. What was read from a file is as old as
// the wall clock says.
type Log struct {
	mu      sync.Mutex
	cluster uint64
	keep    time.Duration
	samples []sample
}

type sample struct {
	at  time.Time // with a monotonic reading, unless it comes from a file
	rev int64
}

// New returns an empty log of a cluster that can answer for keep.
func New(cluster uint64, keep time.Duration) *Log { return &Log{cluster: cluster, keep: keep} }

// Every says how often to sample: a twentieth of what is to be kept, at least
// once a minute and at most once a second. A target is off by at most that.
func Every(keep time.Duration) time.Duration {
	return min(max(keep/20, time.Second), time.Minute)
}

// Add notes that the cluster was at a revision. A revision lower than one before
// says that the cluster was restored from an older state: what was known is then
// worth nothing.
func (l *Log) Add(at time.Time, rev int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.samples); n > 0 && rev < l.samples[n-1].rev {
		l.samples = nil
	}
	if n := len(l.samples); n > 0 && at.Sub(l.samples[n-1].at) <= 0 {
		return
	}
	l.samples = append(l.samples, sample{at, rev})
	// One that is old enough is needed, the ones before it are not.
	old := slices.IndexFunc(l.samples, func(s sample) bool { return at.Sub(s.at) < l.keep })
	if old > 1 {
		l.samples = slices.Delete(l.samples, 0, old-1)
	}
}

// Answer is what a log knows at one time.
type Answer struct {
	Rev   int64         // the newest revision that is known to be old enough, if Known
	Age   time.Duration // how long ago the cluster was at Rev
	Known bool
	Spans time.Duration // for how long back anything is known; 0: nothing is
}

// Before says up to which revision everything is older than the time to keep.
func (l *Log) Before(now time.Time) Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var a Answer
	for i, s := range l.samples {
		age := now.Sub(s.at)
		if i == 0 {
			a.Spans = max(age, 0)
		}
		if age < l.keep {
			break
		}
		a.Rev, a.Age, a.Known = s.rev, age, true
	}
	return a
}

// Len returns how many samples there are.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.samples)
}

// Cluster returns the ID of the cluster that the samples are of.
func (l *Log) Cluster() uint64 { return l.cluster }
