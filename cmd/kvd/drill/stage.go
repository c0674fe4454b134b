package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
	"kvd/pkg/server/local"
)

// stage is the throwaway cluster that a drill plays on, and the connections to
// it.
type stage struct {
	root    string // everything the drill has written to disk
	cluster *local.Cluster
	client  *cluster.Client
}

// stopGrace is how long a member may take to end after SIGTERM when it is
// restarted.
const stopGrace = 15 * time.Second

// setting says what cluster a scene plays on.
type setting struct {
	members int
	keep    bool
	dir     string // of which the cluster's folder is made; empty: the system's for temporary files
	command local.Command
	quota   int64
	args    []string // further flags for every member
	cut     bool     // a member is to be cut off from the others
}

// newStage starts the cluster in a new folder. On failure nothing is left.
func newStage(ctx context.Context, o setting, sink progress.Sink) (*stage, error) {
	phase := fmt.Sprintf("starting %d members", o.members)
	if o.members == 1 {
		phase = "starting 1 member"
	}
	sink.Event(progress.Event{Op: "drill", Phase: phase})
	root, err := os.MkdirTemp(o.dir, "kvd-drill-")
	if err != nil {
		return nil, &fault.Error{Kind: fault.Usage, Cause: "drill_dir", Op: "drill", Msg: "no folder for the cluster could be made", Err: err,
			Hint: "name a folder with --dir in which this user may write"}
	}
	lc, err := local.Start(ctx, local.Options{
		Members: o.members, Command: o.command, Dir: root, QuotaBytes: o.quota, Args: o.args, StopGrace: stopGrace, Detach: o.keep, Cuttable: o.cut,
	})
	if err != nil {
		return nil, errors.Join(withoutFolder(err, root), os.RemoveAll(root))
	}
	s := &stage{root: root, cluster: lc}
	if err := s.connect(ctx); err != nil {
		_, cerr := s.strike()
		return nil, errors.Join(err, cerr)
	}
	return s, nil
}

// withoutFolder is the error of a start without a hint to what is about to be removed.
func withoutFolder(err error, root string) error {
	var e *fault.Error
	if errors.As(err, &e) && strings.Contains(e.Hint, root) {
		return e.WithHint("play it again, on a machine that is less busy or has more room")
	}
	return err
}

// connect makes a new connection to all members, in place of the one there is.
func (s *stage) connect(ctx context.Context) error {
	if s.client != nil {
		_ = s.client.Close() // nothing is under way on it
	}
	client, err := cluster.Connect(cluster.Config{Endpoints: s.cluster.Endpoints(), Source: "drill"})
	if err != nil {
		return err
	}
	s.client = client
	return nil
}

// members returns a client for each member, in the order of their names, and
// the view they are from.
func (s *stage) members(ctx context.Context) ([]*cluster.MemberClient, cluster.View, error) {
	view, err := s.client.View(ctx)
	if err != nil {
		return nil, view, err
	}
	if err := view.Err(); err != nil {
		return nil, view, err
	}
	var out []*cluster.MemberClient
	for i := range s.cluster.Len() {
		m, err := view.FindMember(s.cluster.Name(i))
		if err != nil {
			return nil, view, err
		}
		c, err := s.client.Member(m.ID)
		if err != nil {
			return nil, view, err
		}
		out = append(out, c)
	}
	return out, view, nil
}

// strike ends every process and removes every file. A throwaway cluster needs
// no orderly end.
func (s *stage) strike() (*CleanedUp, error) {
	done := &CleanedUp{Dir: s.root}
	for i := range s.cluster.Len() {
		if s.cluster.Running(i) {
			done.Processes++
		}
	}
	var errs []error
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	errs = append(errs, s.cluster.Close(), os.RemoveAll(s.root))
	return done, errors.Join(errs...)
}

// leave lets the cluster run on and says how to reach it and how to end it.
func (s *stage) leave() *Kept {
	eps := strings.Join(s.cluster.Endpoints(), ",")
	k := &Kept{
		Dir:    s.root,
		Export: "export ETCDCTL_ENDPOINTS=" + eps,
		Status: "kvd status --endpoints " + eps,
	}
	stop := "kill -9" // an orderly end takes longer, and would write into the folder
	for i := range s.cluster.Len() {
		if pid := s.cluster.PID(i); pid != 0 {
			k.PIDs = append(k.PIDs, pid)
			stop += fmt.Sprintf(" %d", pid)
		}
	}
	s.cluster.Abandon()
	k.Stop = stop + " && rm -r " + quoted(s.root)
	if s.client != nil {
		_ = s.client.Close()
	}
	return k
}

// quoted is a path as a shell takes it for one word. It does without
// backslashes, which are escaped wherever text is shown.
func quoted(path string) string {
	return "'" + strings.ReplaceAll(path, "'", `'"'"'`) + "'"
}

// commitPause is longer than the 100 ms after which etcd commits its backend:
// sizes are refreshed only then (defaultBatchInterval in server/storage/backend).
const commitPause = 250 * time.Millisecond

// sizesSettle is how long sizes are waited for to come to rest, at most.
const sizesSettle = 10 * time.Second

// measure returns every member's sizes once they have applied the same entries
// and their sizes have come to rest.
func (s *stage) measure(ctx context.Context, phase string) (Sizes, cluster.View, error) {
	ctx, cancel := context.WithTimeout(ctx, sizesSettle)
	defer cancel()
	var before cluster.View
	for {
		view, err := s.client.View(ctx)
		if err == nil {
			err = view.Err()
		}
		if err != nil {
			return Sizes{}, view, err
		}
		if atRest(before, view) {
			return sizesOf(phase, view), view, nil
		}
		before = view
		if err := wait.For(ctx, commitPause); err != nil {
			return sizesOf(phase, view), view, &fault.Error{Kind: fault.Unavailable, Cause: "not_settled", Op: "drill",
				Msg: fmt.Sprintf("the members' sizes still change %s after the last write", sizesSettle), Err: err}
		}
	}
}

// atRest says whether all members of two views in a row have the same sizes and
// the same revision.
func atRest(before, now cluster.View) bool {
	for _, m := range now.Members {
		old, ok := before.MemberByID(m.ID)
		if !ok || old.Status == nil || old.Status.DBSize != m.Status.DBSize || old.Status.DBInUse != m.Status.DBInUse ||
			m.Status.Revision != now.Members[0].Status.Revision {
			return false
		}
	}
	return true
}

func sizesOf(phase string, view cluster.View) Sizes {
	out := Sizes{Phase: phase}
	for _, m := range view.Members {
		if m.Status == nil {
			continue
		}
		out.Members = append(out.Members, MemberSize{Name: m.Name, ID: cluster.FormatID(m.ID), Role: view.Role(m),
			DBSize: m.Status.DBSize, DBInUse: m.Status.DBInUse, Quota: m.Status.EffectiveQuota()})
	}
	return out
}
