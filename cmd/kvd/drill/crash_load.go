package drill

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/wait"
)

const (
	crashPrefix = "/kvd-drill/crash/"
	// crashValueBytes is a small Kubernetes object, a Lease with its managedFields.
	crashValueBytes = 512
	// crashRetry is how long a writer waits after a write that was not answered.
	crashRetry = 50 * time.Millisecond
)

// crashLoad writes keys of its own, each once, and never tries one again: so what
// is there afterwards can be told from what was answered.
type crashLoad struct {
	members []*cluster.MemberClient
	acked   atomic.Int64
	wg      sync.WaitGroup

	mu         sync.Mutex
	revisions  map[string]int64  // of what was acknowledged
	unanswered map[string]string // with the error
}

func newCrashLoad(members []*cluster.MemberClient) *crashLoad {
	return &crashLoad{members: members, revisions: map[string]int64{}, unanswered: map[string]string{}}
}

// start lets writersPerMember writers write through each member until ctx ends.
func (l *crashLoad) start(ctx context.Context) int {
	n := writersPerMember * len(l.members)
	for w := range n {
		l.wg.Go(func() { l.write(ctx, l.members[w%len(l.members)], w) })
	}
	return n
}

func (l *crashLoad) write(ctx context.Context, m *cluster.MemberClient, w int) {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("%sw%03d/%07d", crashPrefix, w, i)
		put, cancel := context.WithTimeout(ctx, cluster.DefaultCommandTimeout)
		resp, err := m.Etcd().Put(put, key, crashValue(key))
		cancel()
		l.mu.Lock()
		if err != nil {
			l.unanswered[key] = err.Error()
		} else {
			l.revisions[key] = resp.Header.Revision
		}
		l.mu.Unlock()
		if err == nil {
			l.acked.Add(1)
		} else if wait.For(ctx, crashRetry) != nil {
			return
		}
	}
}

// until waits for n acknowledged writes, as long as outlived is nil: a cluster that
// has ended acknowledges none any more.
func (l *crashLoad) until(ctx context.Context, n int64, outlived func() error) error {
	for l.acked.Load() < n {
		if err := cmp.Or(outlived(), wait.For(ctx, crashPoll)); err != nil {
			return err
		}
	}
	return outlived()
}

// crashPoll is a fraction of a batch interval, so that the kill comes at any
// moment between two commits.
const crashPoll = 7 * time.Millisecond

// crashValue is what a key holds: a text that names it, filled up, and a checksum,
// so that a half of it or another's can be told from it.
func crashValue(key string) string {
	body := key + " " + strings.Repeat("x", crashValueBytes-len(key)-len(" ")-len("00000000"))
	return body + fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body)))
}

// acknowledged is a copy of what was acknowledged until now.
func (l *crashLoad) acknowledged() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.revisions)
}

// last is the key of the highest acknowledged revision.
func (l *crashLoad) last() (key string, rev int64) {
	for k, r := range l.acknowledged() {
		if r > rev {
			key, rev = k, r
		}
	}
	return key, rev
}
