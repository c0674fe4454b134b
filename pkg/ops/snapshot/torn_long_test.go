//go:build long

package snapshot_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// writers keep a server busy, and remember what each revision wrote.
type writers struct {
	mu      sync.Mutex
	written map[dbfile.Revision][sha256.Size]byte // of the value
	head    int64
}

// write puts a few keys in one transaction.
func (w *writers) write(ctx context.Context, cli *clientv3.Client, rng *rand.Rand) error {
	var ops []clientv3.Op
	var values [][sha256.Size]byte
	for first, i := rng.IntN(3000), 0; i <= rng.IntN(4); i++ {
		value := strconv.FormatUint(rng.Uint64(), 36) + string(make([]byte, rng.IntN(3000)))
		values = append(values, sha256.Sum256([]byte(value)))
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("/k/%05d", first+i), value))
	}
	r, err := cli.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, v := range values {
		w.written[dbfile.Revision{Main: r.Header.Revision, Sub: int64(i)}] = v
	}
	w.head = max(w.head, r.Header.Revision)
	return nil
}

// run writes until the context ends, and compacts now and then.
func (w *writers) run(ctx context.Context, t *testing.T, cli *clientv3.Client) {
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(11, uint64(i))) //nolint:gosec // seeded on purpose
			for n := 1; ctx.Err() == nil; n++ {
				// Not with ctx: what is under way is waited for, so that it is remembered.
				if err := w.write(context.WithoutCancel(ctx), cli, rng); err != nil {
					t.Error(err)
					return
				}
				if i > 0 || n%500 != 0 {
					continue
				}
				w.mu.Lock()
				head := w.head
				w.mu.Unlock()
				if _, err := cli.Compact(context.WithoutCancel(ctx), head-400, clientv3.WithCompactPhysical()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// copyFile copies as cp does, with pauses, as a slow disk has them.
func copyFile(from, to string, pause time.Duration) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // a copy for a test
	for {
		n, err := io.CopyN(out, in, 128<<10)
		if err == io.EOF {
			return nil
		}
		if err != nil || n == 0 {
			return err
		}
		time.Sleep(pause)
	}
}

// TestCopiesOfABusyServer copies the file of a server that writes. What is wrong
// with the pages of such a copy, or missing within its history, must not pass for
// well, and the verdict names the class. What can show nothing is another value of
// the right length, and a last transaction that is not all there.
func TestCopiesOfABusyServer(t *testing.T) {
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync", "--backend-batch-interval", "5ms"}}})
	ctx := servertest.Context(t, 4*time.Minute)
	cli := c.Client(t)
	w := &writers{written: map[dbfile.Revision][sha256.Size]byte{}}
	dir := t.TempDir()
	busy, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() { w.run(busy, t, cli); close(done) }()
	time.Sleep(3 * time.Second)
	var copies []string
	for i := range 24 {
		path := filepath.Join(dir, fmt.Sprintf("copy%02d", i))
		if err := copyFile(c.DBPath(0), path, time.Duration(i%4)*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, path)
	}
	stop()
	<-done
	seen := map[string]int{}
	for _, path := range copies {
		v, err := snapshot.Verify(ctx, path, snapshot.Options{}, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		wrong, shows := w.compare(ctx, t, path)
		seen[fmt.Sprintf("%s, %s, content wrong: %v, to be seen: %v", v.Verdict, v.Class, wrong != "", shows)]++
		t.Logf("%s: %s (%s) %s; %s", filepath.Base(path), v.Verdict, v.Class, v.Summary, wrong)
		if v.Verdict == snapshot.Restorable {
			t.Errorf("%s is called restorable", path)
		}
		switch unproven := v.Verdict == snapshot.Unproven; {
		case shows && unproven:
			t.Errorf("%s is called %s (%s), and %s", path, v.Verdict, v.Class, wrong)
		case unproven && (v.Class != snapshot.ClassRawCopy || !strings.Contains(v.Summary, "may be torn")):
			t.Errorf("%s: %s (%s) %s", path, v.Verdict, v.Class, v.Summary)
		case (v.Class == snapshot.ClassBadPages || v.Class == snapshot.ClassBadRecords) && strings.Contains(v.Hint, "while a server was writing"):
		case !unproven && v.Class != snapshot.ClassTornCopy && v.Class != snapshot.ClassTruncated && v.Class != snapshot.ClassZeroTail:
			t.Errorf("%s: class %s: %s: %s", path, v.Class, v.Summary, v.Hint)
		}
	}
	t.Log(seen)
	if len(seen) < 2 {
		t.Error("no copy was torn, or all were: nothing was compared")
	}
}

// compare says what a copy has wrong of the history from its compaction to its
// head, empty if nothing, and whether the file alone can show that.
func (w *writers) compare(ctx context.Context, t *testing.T, path string) (wrong string, shows bool) {
	t.Helper()
	f, err := dbfile.Open(path)
	if err != nil {
		return err.Error(), true
	}
	defer f.Close() //nolint:errcheck // only read
	w.mu.Lock()
	defer w.mu.Unlock()
	say := func(visible bool, format string, args ...any) {
		if wrong == "" || visible && !shows {
			wrong, shows = fmt.Sprintf(format, args...), visible
		}
	}
	found := map[dbfile.Revision]bool{}
	scan := &dbfile.Scan{Damage: func(d *dbfile.Damage) error { say(true, "%v", d); return nil }}
	scan.Record = func(r *dbfile.Record) error {
		if found[r.Revision] = true; w.written[r.Revision] != sha256.Sum256(r.Value) {
			say(false, "revision %s has another value", r.Revision)
		}
		return nil
	}
	if err := scan.Run(ctx, f); err != nil {
		t.Fatal(err)
	}
	for r := range w.written {
		if r.Main > scan.Meta.CompactRevision() && r.Main <= scan.Head && !found[r] {
			say(r.Main < scan.Head, "revision %s is missing of %d", r, scan.Head)
		}
	}
	return wrong, shows
}
