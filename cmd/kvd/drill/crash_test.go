package drill_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

func crashOptions(t *testing.T, members int, kill string, writes int64) drill.CrashOptions {
	t.Helper()
	o := drill.DefaultCrashOptions()
	o.Members, o.Kill, o.Writes, o.Dir = members, kill, writes, t.TempDir()
	o.Command = local.Command{Path: servertest.Binary(t), Args: []string{"serve", "--unsafe-no-fsync"}}
	return o
}

func playCrash(ctx context.Context, t *testing.T, o drill.CrashOptions) (drill.CrashReport, error) {
	t.Helper()
	r, err := drill.Crash(ctx, o, progress.Discard)
	logReport(t, r, err)
	nothingLeft(t, o.Dir)
	return r, err
}

// logReport shows a report where the test fails.
func logReport(t *testing.T, r any, err error) {
	t.Helper()
	raw, merr := json.MarshalIndent(r, "", " ")
	if merr != nil {
		t.Errorf("the report has no JSON form: %v", merr)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v\n%s", err, raw)
		}
	})
}

// checkCrash asserts what must be so of every crash drill that was proved.
func checkCrash(t *testing.T, o drill.CrashOptions, r drill.CrashReport) {
	t.Helper()
	killed := 1
	if o.Kill == drill.KillAll {
		killed = o.Members
	}
	if r.Outcome != drill.Proved || len(r.Missing) != 0 || r.CleanedUp == nil || r.CleanedUp.Processes != o.Members {
		t.Errorf("outcome %s, missing %v, cleaned up %+v", r.Outcome, r.Missing, r.CleanedUp)
	}
	if r.Load.Acknowledged < o.Writes || r.Load.LastRevision <= r.Load.Acknowledged {
		t.Errorf("load %+v", r.Load)
	}
	if len(r.Killed) != killed || len(r.Files) != killed || len(r.Starts) != killed || len(r.Proof.Members) != o.Members {
		t.Fatalf("%d killed, %d looked at, %d started, %d read", len(r.Killed), len(r.Files), len(r.Starts), len(r.Proof.Members))
	}
	for i, f := range r.Files {
		v, st := r.Killed[i], r.Starts[i]
		if v.Member != f.Member || st.Member != f.Member || o.Kill != drill.KillAll && v.Role != o.Kill {
			t.Errorf("killed %s (%s), looked at %s, started %s", v.Member, v.Role, f.Member, st.Member)
		}
		if v.Fsyncs == 0 || v.Commits == 0 || v.Fsyncs > v.Proposals+10 {
			t.Errorf("%+v", v)
		}
		if f.Behind != f.LastIndex-f.ConsistentIndex || f.ConsistentIndex > f.LastIndex || f.Commit > f.LastIndex || len(f.Mismatches) != 0 {
			t.Errorf("files %+v", f)
		}
		if f.WritesInLog > int64(f.Behind) || f.AckedInLog > f.WritesInLog || f.WritesInDB > int64(f.ConsistentIndex) {
			t.Errorf("files %+v", f)
		}
		// A kill that came before the first commit after the first write leaves none.
		if f.WritesInDB == 0 && r.Load.LoadSeconds > 5*r.Load.BatchIntervalSeconds {
			t.Errorf("no write in the database after %.3f s: %+v", r.Load.LoadSeconds, f)
		}
		if st.ConsistentIndex != f.ConsistentIndex || st.FromLog+st.Dropped != f.WritesInLog || st.FromLog+st.FromLeader != st.Applied ||
			st.FromLeader < 0 || st.Revision != 1+f.WritesInDB+st.Applied {
			t.Errorf("start %+v of files %+v", st, f)
		}
	}
	for _, m := range r.Proof.Members {
		if m.ExactlyOnce != r.Load.Acknowledged || m.Keys != m.ExactlyOnce+m.UnansweredThere || m.UnansweredThere > r.Load.Unanswered || m.Revision != m.Keys+1 {
			t.Errorf("found %+v of load %+v", m, r.Load)
		}
	}
}

// A drill in which a write is lost, or done twice, is not proved, whatever did
// that.
func TestCrashSabotaged_more(t *testing.T) {
	for _, tc := range []struct {
		name     string
		sabotage drill.CrashSabotage
		want     string
	}{
		{"the log loses its last writes", drill.CrashSabotage{Files: cutLog}, "acknowledged writes that are lost"},
		{"a key is deleted", drill.CrashSabotage{Cluster: func(ctx context.Context, eps []string, key string, _ int64) error {
			return etcdDo(eps, func(c *clientv3.Client) error { _, err := c.Delete(ctx, key); return err })
		}}, "acknowledged writes that are lost: 1"},
		{"a write is repeated", drill.CrashSabotage{Cluster: func(ctx context.Context, eps []string, key string, _ int64) error {
			return etcdDo(eps, func(c *clientv3.Client) error {
				resp, err := c.Get(ctx, key)
				if err == nil {
					_, err = c.Put(ctx, key, string(resp.Kvs[0].Value))
				}
				return err
			})
		}}, "otherwise than once"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := crashOptions(t, 1, drill.KillAll, 300)
			o.Sabotage = tc.sabotage
			r, err := playCrash(t.Context(), t, o)
			if r.Outcome == drill.Proved && r.Files[0].AckedInLog == 0 && tc.name == "the log loses its last writes" {
				t.Skip("the kill came right behind a commit of the database: the log alone had nothing")
			}
			if tc.name == "the log loses its last writes" && (len(r.Proof.Members) != 1 || r.Proof.Members[0].Lost != r.Files[0].AckedInLog) {
				t.Errorf("lost %+v of %+v", r.Proof.Members, r.Files)
			}
			if fault.KindOf(err) != fault.Wanting || r.Outcome != drill.NotProved || !strings.Contains(strings.Join(r.Missing, "; "), tc.want) {
				t.Errorf("outcome %s, missing %v, error %v", r.Outcome, r.Missing, err)
			}
		})
	}
}

// cutLog takes everything out of a log that the database does not have, as if it
// had never reached the disk.
func cutLog(dirs []string, _ map[string]int64) error {
	dir := dirs[0]
	file, err := dbfile.Open(filepath.Join(dir, "member", "snap", "db"))
	if err != nil {
		return err
	}
	defer file.Close()
	meta, err := file.Meta(context.Background())
	if err != nil {
		return err
	}
	var at wal.Position
	if err := wal.Records(context.Background(), dir, func(r wal.Record) error {
		if at.File == "" && r.Entry.Index > meta.ConsistentIndex {
			at = r.Position
		}
		return nil
	}); err != nil || at.File == "" {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "member", "wal", at.File), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(make([]byte, 4<<20), at.Offset)
	return err
}

func etcdDo(eps []string, do func(*clientv3.Client) error) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: eps})
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// A member that ends by itself while it is written to ends the drill: the rest of the
// writes would be waited for without an end.
func TestCrashOfAMemberThatEnds(t *testing.T) {
	t.Parallel()
	o := crashOptions(t, 1, drill.KillAll, drill.MaxCrashWrites)
	o.Command = local.Command{Path: "timeout", Args: append([]string{"-s", "KILL", "3", o.Command.Path}, o.Command.Args...)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := playCrash(ctx, t, o)
	if fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != local.CauseExited || r.Outcome != drill.Failed {
		t.Errorf("%s: %v", r.Outcome, err)
	}
}

func TestCrashUsage(t *testing.T) {
	for name, change := range map[string]func(*drill.CrashOptions){
		"no member":            func(o *drill.CrashOptions) { o.Members = 0 },
		"six members":          func(o *drill.CrashOptions) { o.Members = 6 },
		"few writes":           func(o *drill.CrashOptions) { o.Writes = 99 },
		"many writes":          func(o *drill.CrashOptions) { o.Writes = 1 << 20 },
		"nobody":               func(o *drill.CrashOptions) { o.Kill = "nobody" },
		"the leader of one":    func(o *drill.CrashOptions) { o.Members, o.Kill = 1, drill.KillLeader },
		"a follower of two":    func(o *drill.CrashOptions) { o.Members, o.Kill = 2, drill.KillFollower },
		"a folder that is not": func(o *drill.CrashOptions) { o.Dir = "/nonexistent" },
	} {
		o := drill.DefaultCrashOptions()
		o.Command.Path = "/nonexistent"
		change(&o)
		if _, err := drill.Crash(t.Context(), o, progress.Discard); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}
