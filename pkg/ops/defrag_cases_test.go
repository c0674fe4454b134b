package ops_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// raise raises an alarm for a member, as a member does itself.
func raise(t *testing.T, c *servertest.Cluster, member uint64, typ pb.AlarmType) {
	t.Helper()
	cli := c.Client(t)
	_, err := pb.NewMaintenanceClient(cli.ActiveConnection()).Alarm(t.Context(),
		&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: member, Alarm: typ})
	if err != nil {
		t.Fatal(err)
	}
}

// C26: NOSPACE is what a defragmentation is for; CORRUPT, or a voter that is
// away, are reasons to leave it.
func TestDefragHealthGates(t *testing.T) {
	defragHealthGates(t, except(illnesses(), "NOSPACE everywhere", "no quorum"))
}

func TestDefragHealthGates_more(t *testing.T) {
	defragHealthGates(t, only(illnesses(), "NOSPACE everywhere", "no quorum"))
}

type illness struct {
	members int
	hurt    func(*testing.T, *servertest.Cluster, cluster.View)
	cause   string // "" : it runs
}

func illnesses() map[string]illness {
	return map[string]illness{
		"NOSPACE everywhere": {3, func(t *testing.T, c *servertest.Cluster, v cluster.View) {
			for _, m := range v.Members {
				raise(t, c, m.ID, pb.AlarmType_NOSPACE)
			}
		}, ""},
		"NOSPACE of the only member": {1, func(t *testing.T, c *servertest.Cluster, v cluster.View) {
			raise(t, c, v.Members[0].ID, pb.AlarmType_NOSPACE)
		}, ""},
		"CORRUPT beside NOSPACE": {3, func(t *testing.T, c *servertest.Cluster, v cluster.View) {
			raise(t, c, v.Members[0].ID, pb.AlarmType_NOSPACE)
			raise(t, c, v.Members[2].ID, pb.AlarmType_CORRUPT)
		}, cluster.CauseCorrupt},
		"a voter is down": {3, func(t *testing.T, c *servertest.Cluster, _ cluster.View) {
			c.Kill((c.Leader(t) + 1) % 3)
		}, "voter_missing"},
		"no quorum": {3, func(t *testing.T, c *servertest.Cluster, _ cluster.View) {
			lead := c.Leader(t)
			c.Kill((lead + 1) % 3)
			c.Kill((lead + 2) % 3)
		}, "voter_missing"},
	}
}

func defragHealthGates(t *testing.T, in map[string]illness) {
	for name, tc := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fragmented(t, servertest.Options{Options: local.Options{Members: tc.members}}, 2, 8)
			client, view := connect(t, c)
			tc.hurt(t, c, view)
			view = mustView(t, client)
			p := planned(t, client, view, quick(), progress.Discard)
			if err := p.Check(t.Context()); fault.CauseOf(err) != tc.cause {
				t.Errorf("a dry run says %v, want cause %q", err, tc.cause)
			}
			r, err := p.Run(t.Context(), nil, progress.Discard)
			if tc.cause == "" {
				if err != nil || r.Outcome != plan.OutcomeDone {
					t.Fatalf("%s, %v", r.Outcome, err)
				}
				for i, n := range defrags(t, c) {
					if n != 1 {
						t.Errorf("%s was defragmented %d times", c.Name(i), n)
					}
				}
				return
			}
			if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != tc.cause || !strings.Contains(err.Error(), "gate") {
				t.Errorf("%v (%s)", err, fault.CauseOf(err))
			}
			for i, n := range defrags(t, c) {
				if c.Running(i) && n != 0 {
					t.Errorf("%s was defragmented", c.Name(i))
				}
			}
		})
	}
}

// C29: the rule is computed with the member's own quota.
func TestDefragRuleUsesEachMembersQuota(t *testing.T) {
	for _, tc := range []struct {
		quota, live int // MiB
		rule        string
		runs        bool
	}{
		{28, 13, "usage_ratio > 0.7", true},
		{8192, 13, "usage_ratio > 0.7", false},
		{40, 13, "dbQuotaUsage > 0.4 && dbQuotaUsage < 0.8", true},
	} {
		t.Run(fmt.Sprintf("%d MiB, %s", tc.quota, tc.rule), func(t *testing.T) {
			t.Parallel()
			c := fragmented(t, servertest.Options{Options: local.Options{QuotaBytes: int64(tc.quota) << 20}}, tc.live, 7)
			client, view := connect(t, c)
			o := quick()
			o.If = tc.rule
			r, err := planned(t, client, view, o, progress.Discard).Run(t.Context(), nil, progress.Discard)
			usage, _ := view.Members[0].Status.UsageRatio()
			if done := r.Outcome == plan.OutcomeDone; err != nil || done != tc.runs {
				t.Errorf("at %.0f %% of the quota: %s, %v", 100*usage, r.Outcome, err)
			}
		})
	}
}

// C30: a disk without room for the copy. Where kvd sees the disk, it refuses;
// where it is told not to look, etcd fails, and the file is what it was.
func TestDefragNeedsRoomForTheCopy(t *testing.T) { defragNeedsRoomForTheCopy(t, room{48, 28}) }

func TestDefragNeedsRoomForTheCopy_more(t *testing.T) {
	defragNeedsRoomForTheCopy(t, room{64, 36}, room{96, 56})
}

type room struct{ disk, live int } // MiB

func defragNeedsRoomForTheCopy(t *testing.T, cases ...room) {
	for _, tc := range cases {
		t.Run(fmt.Sprintf("%d MiB in use of %d", tc.live, tc.disk), func(t *testing.T) {
			c := onSmallDisk(t, tc.disk)
			fillFragmented(t, c, tc.live, 1)
			client, view := connect(t, c)
			before := view.Members[0].Status.DBSize
			o := quick()
			o.MinGain = 0
			p := planned(t, client, view, o, progress.Discard)
			err := p.Check(t.Context())
			if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != "disk_space" || !strings.Contains(err.Error(), "are free") {
				t.Fatalf("%v (%s)", err, fault.CauseOf(err))
			}
			if got := defrags(t, c); got[0] != 0 {
				t.Errorf("defragmented %v times", got)
			}

			o.SkipDiskCheck = true
			r, err := planned(t, client, view, o, progress.Discard).Run(t.Context(), nil, progress.Discard)
			if err == nil || r.Steps[0].State != plan.Failed || !strings.Contains(r.Steps[0].Reason, "unchanged") ||
				!strings.Contains(r.Steps[0].Reason, "no space left on device") {
				t.Errorf("%v: %+v", err, r.Steps[0])
			}
			if fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != "disk_full" {
				t.Errorf("kind %q, cause %q", fault.KindOf(err), fault.CauseOf(err))
			}
			if after := mustView(t, client).Members[0].Status; after == nil || after.DBSize < before {
				t.Errorf("the file was %d bytes, now %+v", before, after)
			}
			// etcd 3.7.3 means to remove the half copy, and does not.
			left, _ := filepath.Glob(filepath.Join(filepath.Dir(c.DBPath(0)), "db.tmp*"))
			for _, l := range left {
				if !strings.Contains(fault.HintOf(err), l) {
					t.Errorf("the hint %q does not name %s", fault.HintOf(err), l)
				}
			}
			// Whoever comes next is told what holds the space.
			o.SkipDiskCheck = false
			err = planned(t, client, mustView(t, client), o, progress.Discard).Check(t.Context())
			if len(left) == 0 || fault.CauseOf(err) != "disk_space" || !strings.Contains(fault.HintOf(err), "remove "+left[0]) {
				t.Errorf("%v, hint %q: want %v named", err, fault.HintOf(err), left)
			}
			resp, err := c.Client(t).Get(t.Context(), "live/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil || resp.Count != int64(tc.live)*4 {
				t.Errorf("%d of %d keys: %v", resp.Count, tc.live*4, err)
			}
		})
	}
}

// onSmallDisk starts a member whose backend, but not its WAL, is on a disk of
// its own.
func onSmallDisk(t *testing.T, mib int) *servertest.Cluster {
	t.Helper()
	wal := filepath.Join(t.TempDir(), "wal")
	c := servertest.New(t, servertest.Options{Options: local.Options{MemberArgs: func(int) []string { return []string{"--wal-dir", wal} }}})
	if err := os.MkdirAll(c.DataDir(0), 0o700); err != nil {
		t.Fatal(err)
	}
	servertest.MountSmall(t, c.DataDir(0), mib)
	if err := c.StartMember(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return c
}

// A hook, a selection by name and a settle pause on a real cluster.
func TestDefragHooksOnARealCluster(t *testing.T) {
	t.Parallel()
	c := fragmented(t, servertest.Options{Options: local.Options{Members: 3}}, 2, 8)
	client, view := connect(t, c)
	log := filepath.Join(t.TempDir(), "log")
	o := ops.DefaultDefragOptions()
	o.Settle = 700 * time.Millisecond
	o.BeforeMember = fmt.Sprintf(`sh -c 'echo "before $KVD_MEMBER_NAME $KVD_MEMBER_ENDPOINT" >> %s'`, log)
	o.AfterMember = fmt.Sprintf(`sh -c 'echo "after $KVD_MEMBER_NAME $KVD_MEMBER_ENDPOINT" >> %s'`, log)
	r, err := planned(t, client, view, o, progress.Discard).Run(t.Context(), nil, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range ops.DefragOrder(view, view.Members) {
		want = append(want, fmt.Sprintf("before %s %s", m.Name, m.Endpoint), fmt.Sprintf("after %s %s", m.Name, m.Endpoint))
	}
	if got := strings.Split(strings.TrimSpace(string(raw)), "\n"); !slices.Equal(got, want) {
		t.Errorf("hooks ran as %v, want %v", got, want)
	}
	if r.TookSeconds < 2*o.Settle.Seconds() {
		t.Errorf("three members with a pause of %s took %.2f s", o.Settle, r.TookSeconds)
	}
}

// What comes up while the command before a member runs counts as well: here another
// voter is gone by then.
func TestDefragLooksAgainBehindAHook(t *testing.T) {
	t.Parallel()
	c := fragmented(t, servertest.Options{Options: local.Options{Members: 3}}, 2, 8)
	client, view := connect(t, c)
	first := ops.DefragOrder(view, view.Members)[0]
	victim := (c.Leader(t) + 1) % 3
	if c.Name(victim) == first.Name {
		victim = (victim + 1) % 3
	}
	o := ops.DefaultDefragOptions()
	o.BeforeMember = fmt.Sprintf("kill -9 %d", c.PID(victim))
	r, err := planned(t, client, view, o, progress.Discard).Run(t.Context(), nil, progress.Discard)
	if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != "voter_missing" || !strings.Contains(fault.HintOf(err), "undo what the command did") {
		t.Errorf("%v (%s)", err, fault.HintOf(err))
	}
	after, err := client.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := after.MemberByID(first.ID); m.Status == nil || m.Status.DBSize < first.Status.DBSize {
		t.Errorf("%+v; it had %d bytes; %+v", m.Status, first.Status.DBSize, r.Steps)
	}
}
