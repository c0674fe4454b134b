package diagnose_test

import (
	"slices"
	"strings"
	"testing"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
)

// commands are those that a finding advises.
func commands(f diagnose.Finding) []string {
	var out []string
	for _, s := range f.Next {
		if s.Command != "" {
			out = append(out, s.Command)
		}
	}
	return out
}

// A remedy takes away what there is: not history from a file that live data fills, and
// not the thousand revisions that a compaction leaves.
func TestRemediesDoSomething(t *testing.T) {
	for name, p := range map[string]struct {
		id     string
		change func(*world)
		want   []string
	}{
		"a file full of live data": {"KVD-SPACE-002", func(w *world) {
			w.fill(100*mib, 84*mib, 84*mib)
			w.stored(2000, 4000, 4011, 83*mib)
		}, []string{"kvd quota", "kvd keys usage", "kvd keys delete --prefix PREFIX --older-than 720h --dry-run"}},
		"a file full of history, in few revisions": {"KVD-SPACE-002", func(w *world) {
			w.fill(16*mib, 14*mib, 14*mib)
			w.stored(2, 40, 51, 2*mib)
		}, []string{"kvd quota", "kvd compact --to head", "kvd defrag"}},
		"a file full of history": {"KVD-SPACE-002", func(w *world) {
			w.fill(16*mib, 14*mib, 14*mib)
			w.stored(200, 4000, 9000, 2*mib)
		}, []string{"kvd quota", "kvd compact --step 5000 --pause 1s", "kvd defrag"}},
		"a file full of free pages": {"KVD-SPACE-002", func(w *world) {
			w.fill(100*mib, 84*mib, 60*mib)
			w.stored(2000, 4000, 4011, 30*mib)
		}, []string{"kvd quota", "kvd compact --to head", "kvd defrag"}},
		"nothing known of what fills it": {"KVD-SPACE-002", func(w *world) {
			w.fill(100*mib, 84*mib, 60*mib)
			w.in.Keys = nil
		}, []string{"kvd quota", "kvd compact --dry-run", "kvd defrag --dry-run"}},
		"NOSPACE, of few revisions": {"KVD-SPACE-005", func(w *world) {
			w.alarm(1, cluster.AlarmNoSpace)
			w.fill(16*mib, 16*mib, 16*mib)
			w.stored(2, 40, 51, 2*mib)
		}, []string{"kvd compact --to head", "kvd defrag"}},
		"a slow disk of the leader": {"KVD-DISK-001", func(w *world) { w.fsync[1] = repeat(0.06, 200) }, []string{"kvd diagnose --disk DIR", "kvd member move-leader"}},
		"a slow disk of a follower": {"KVD-DISK-001", func(w *world) { w.fsync[2] = repeat(0.06, 200) }, []string{"kvd diagnose --disk DIR"}}, // to which a move could go
		"slow disks of a majority, the leader's among them": {"KVD-DISK-001", func(w *world) { w.fsync[1], w.fsync[2] = repeat(0.06, 200), repeat(0.06, 200) },
			[]string{"kvd diagnose --disk DIR"}}, // a quick leader would wait for a slow follower
		"slow reads, and too few writes to judge the disk": {"KVD-READ-001", func(w *world) {
			w.grow(1, "etcd_server_slow_apply_total", 60)
			w.fsync[1] = repeat(0.002, 3)
		}, []string{"kvd diagnose --interval 1m", "kvd keys usage"}},
		"slow reads, and a good disk": {"KVD-READ-001", func(w *world) { w.grow(1, "etcd_server_slow_apply_total", 60) }, []string{"kvd keys usage"}},
		"a CORRUPT alarm, and nothing compared": {"KVD-CORRUPT-001", func(w *world) { w.alarm(2, cluster.AlarmCorrupt) },
			[]string{"kvd diagnose --hash", "kvd snapshot save FILE", "kvd member replace m2", "kvd alarm disarm --type CORRUPT"}},
		"a CORRUPT alarm of the right one": {"KVD-CORRUPT-001", func(w *world) {
			w.alarm(2, cluster.AlarmCorrupt)
			w.hashes(7, 9, 7)
		}, []string{"kvd snapshot save FILE", "kvd member replace m2", "kvd alarm disarm --type CORRUPT"}},
		"a CORRUPT alarm, and no majority": {"KVD-CORRUPT-001", func(w *world) { // whom to replace is not known
			w.alarm(2, cluster.AlarmCorrupt)
			w.hashes(7, 8, 9)
		}, []string{"kvd snapshot save FILE", "kvd alarm disarm --type CORRUPT"}},
		"a CORRUPT alarm, and all hold the same": {"KVD-CORRUPT-001", func(w *world) {
			w.alarm(2, cluster.AlarmCorrupt)
			w.hashes(7, 7, 7)
		}, []string{"kvd snapshot save FILE", "kvd alarm disarm --type CORRUPT"}},
		"a CORRUPT alarm, and one was not compared": {"KVD-CORRUPT-001", func(w *world) {
			w.alarm(2, cluster.AlarmCorrupt)
			w.hashes(7, 7, 7)
			w.in.Hashes = w.in.Hashes[:2]
		}, []string{"kvd snapshot save FILE", "kvd diagnose --hash", "kvd alarm disarm --type CORRUPT"}},
		"a CORRUPT alarm of a member that was replaced": {"KVD-CORRUPT-001", func(w *world) {
			w.both(func(v *cluster.View) { v.Alarms = []cluster.Alarm{{MemberID: 0xbad, Type: cluster.AlarmCorrupt}} })
		}, []string{"kvd diagnose --hash", "kvd alarm disarm --type CORRUPT"}},
		"values of 3.9 KiB written often": {"KVD-CHURN-002", func(w *world) {
			w.written(80*mib, "", "/app/")
			w.in.Writes.Groups[0].Writes = w.in.Writes.Groups[0].Bytes / 3990
		}, []string{"kvd keys list --prefix /app/ --min-size 2KiB", "kvd diagnose --interval 1m", "kvd quota"}},
	} {
		w := healthy()
		p.change(w)
		f := finding(t, diagnose.Diagnose(w.input(t)), p.id)
		if got := commands(f); !slices.Equal(got, p.want) {
			t.Errorf("%s: %s advises %q, want %q", name, p.id, got, p.want)
		}
	}
}

// Where no data has a majority, the alarm's finding does not pick whom to blame either.
func TestCorruptAlarmWithoutMajority(t *testing.T) {
	w := healthy()
	w.alarm(2, cluster.AlarmCorrupt)
	w.hashes(7, 8, 9)
	f := finding(t, diagnose.Diagnose(w.input(t)), "KVD-CORRUPT-001")
	mentions(t, f.Summary, "three different states and no majority, do not guess")
	if strings.Contains(f.Summary, "that differs") || !slices.Contains(f.ExplainedBy, "KVD-CORRUPT-002") {
		t.Errorf("%s; explained by %v", f.Summary, f.ExplainedBy)
	}
}

// Keys outside Kubernetes' prefix are something, and a group of them without a common
// prefix has a name.
func TestKeysWithoutPrefix(t *testing.T) {
	w := healthy()
	w.in.Keys.Keys, w.in.Keys.Spaces = 30, nil
	w.in.Keys.Groups = []keyspace.Group{{Keys: 30, Bytes: keyspace.Estimate{Bytes: 19 * mib}, Share: 1, Largest: 100}}
	c, _ := checked(t, diagnose.Diagnose(w.input(t)), "objects")
	if want := "the largest seen has 100 B, in keys without a common prefix"; c.Measured != want {
		t.Errorf("measured %q, want %q", c.Measured, want)
	}
	w.in.Keys.Groups[0].Largest = 1500000
	f := finding(t, diagnose.Diagnose(w.input(t)), "KVD-OBJECT-001")
	if f.Subject == "" || !slices.Equal(commands(f), []string{"kvd keys list --min-size 1MiB"}) {
		t.Errorf("subject %q, commands %q", f.Subject, commands(f))
	}
}

// A ratio below one is not 0.
func TestRatioToPeers(t *testing.T) {
	w := healthy()
	w.fsync[1], w.fsync[2], w.fsync[3] = repeat(0.014, 200), repeat(0.050, 200), repeat(0.050, 200)
	for _, f := range diagnose.Diagnose(w.input(t)).Findings {
		for _, e := range f.Evidence {
			if f.ID == "KVD-DISK-001" && strings.HasPrefix(e.What, "times") && (e.Shown() == "0" || e.Shown() == "0.0") {
				t.Errorf("%s: %s %s, of %v", f.Subject, e.What, e.Shown(), e.Value)
			}
		}
	}
}

// A learner refuses to be defragmented, so that nobody is told to.
func TestALearnersFileIsNotToBeDefragmented(t *testing.T) {
	w := healthy()
	w.fourth(func(m *cluster.Member) {
		s := *m.Status
		m.Learner, m.Status = true, &s
		s.Learner, s.Quota, s.DBSize, s.DBInUse = true, 16*mib, 17*mib, mib
	})
	w.alarm(4, cluster.AlarmNoSpace)
	seen := 0
	for _, f := range diagnose.Diagnose(w.input(t)).Findings {
		if f.ID != "KVD-SPACE-004" && f.ID != "KVD-SPACE-002" {
			continue
		}
		seen++
		all := strings.Join(f.Remedy, "\n")
		if strings.Contains(all, "kvd defrag --dry-run") || !strings.Contains(all, "kvd member promote") {
			t.Errorf("%s: %s", f.ID, all)
		}
	}
	if seen == 0 {
		t.Error("no finding on the learner's file")
	}
}

// kubeadm's renewal makes no certificate for a CA, and etcd reads the one it trusts when it
// starts: what helps a member does not help its CA.
func TestRemedyOfACA(t *testing.T) {
	for ca, want := range map[bool]string{false: "kubeadm certs renew all", true: "`kubeadm certs renew` makes none"} {
		w := healthy()
		w.cert(20)
		w.in.Certs[0].CA = ca
		r := diagnose.Diagnose(w.input(t))
		if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Remedy[0], want) {
			t.Errorf("CA %t: %+v", ca, r.Findings)
		}
	}
}

// A write waits for a quorum of disks, whoever leads: as many quick ones more are enough.
func TestRemedyOfSlowDisks(t *testing.T) {
	for name, tc := range map[string]struct {
		voters int
		slow   []uint64
		want   string // of what would be enough; empty: a quorum is quick
	}{
		"one of three":              {3, []uint64{1}, ""},
		"two of three":              {3, []uint64{1, 2}, "to replace 1 of the 2 is enough"},
		"all of three":              {3, []uint64{1, 2, 3}, "to replace 2 of the 3 is enough"},
		"one of four":               {4, []uint64{3}, ""},
		"two of four":               {4, []uint64{1, 3}, "to replace 1 of the 2 is enough"},
		"one of two":                {2, []uint64{2}, "to replace 1 of the 1 is enough"},
		"the only one, nobody else": {1, []uint64{1}, ""},
	} {
		w := healthy()
		if tc.voters > 3 {
			w.fourth(func(*cluster.Member) {})
		} else {
			w.resize(tc.voters)
		}
		for _, id := range tc.slow {
			w.fsync[id] = repeat(0.06, 200)
		}
		said := 0
		for _, f := range diagnose.Diagnose(w.input(t)).Findings {
			if f.ID != "KVD-DISK-001" {
				continue
			}
			said++
			text := strings.Join(f.Remedy, "\n")
			if tc.want == "" && strings.Contains(text, "whoever leads") || !strings.Contains(text, tc.want) {
				t.Errorf("%s: %q, want %q", name, f.Remedy, tc.want)
			}
			if tc.want != "" && strings.Contains(text, "move-leader") {
				t.Errorf("%s: a move of the leader is advised: %q", name, f.Remedy)
			}
		}
		if said != len(tc.slow) {
			t.Errorf("%s: %d findings, want %d", name, said, len(tc.slow))
		}
	}
}

// A member is replaced where it may be gone; a name or a certificate says nothing of that.
func TestRemedyOfSilence(t *testing.T) {
	for cause, replace := range map[string]bool{cluster.CauseConnectionRefused: true, cluster.CauseNoAnswer: true, cluster.CauseDNSFailure: false,
		cluster.CauseTLSRequired: false, cluster.CauseCertExpired: false, cluster.CauseStarting: false, cluster.CauseOtherMember: false} {
		w := healthy()
		w.down(2, &fault.Error{Kind: fault.Unavailable, Cause: cause, Msg: "it is not there"})
		for _, f := range diagnose.Diagnose(w.input(t)).Findings {
			if verify := cause == cluster.CauseConnectionRefused; f.ID == "KVD-NET-001" && slices.Contains(commands(f), "kvd wal verify DATA-DIR") != verify {
				t.Errorf("%s: %q", cause, f.Remedy)
			}
			if f.ID == "KVD-NET-001" && slices.Contains(commands(f), "kvd member replace m2") != replace {
				t.Errorf("%s: %q", cause, f.Remedy)
			}
		}
	}
}

// What a rescue does not free, and who fills it again, comes before the rescue.
func TestWhatComesBeforeARescue(t *testing.T) {
	w := healthy()
	w.alarm(1, cluster.AlarmNoSpace)
	w.fill(4*mib, 4*mib, 4*mib)
	w.in.Leases.Total = 45000
	w.in.Writes = &diagnose.Writes{Member: "m2", From: 45201, To: 50200, Distinct: 9, Keys: []diagnose.KeyWrites{{Key: []byte("/registry/x.io/certs/a/b"), Writes: 4900}}}
	f := finding(t, diagnose.Diagnose(w.input(t)), "KVD-SPACE-001")
	rescue := slices.Index(f.Remedy, "kvd alarm recover --dry-run")
	for _, before := range []string{"kvd lease revoke --without-keys --dry-run", "stop whoever writes /registry/x.io/certs/a/b first"} {
		if i := slices.IndexFunc(f.Remedy, func(r string) bool { return strings.HasPrefix(r, before) }); i < 0 || i > rescue {
			t.Errorf("%q is not before the rescue: %q", before, f.Remedy)
		}
	}
	if !slices.Contains(f.ExplainedBy, "KVD-CHURN-001") || !slices.Contains(f.ExplainedBy, "KVD-LEASE-003") {
		t.Errorf("explained by %q", f.ExplainedBy)
	}
}

// As many as it takes are to be started, and those that answer are left as they are.
func TestRemedyOfALostQuorum(t *testing.T) {
	w := healthy()
	w.fourth(func(*cluster.Member) {})
	w.down(3, refused("http://10.0.0.3:2379"))
	w.down(4, refused("http://10.0.0.4:2379"))
	f := finding(t, diagnose.Diagnose(w.input(t)), "KVD-RAFT-002")
	mentions(t, f.Remedy[0], "start m3 and m4 again: 1 of them makes a quorum")
	mentions(t, f.Remedy[1], "restart none of those that answer")
}

// A learner beside three voters is not promoted for the failures to be survived.
func TestRemedyOfALearnerBesideThree(t *testing.T) {
	w := healthy()
	w.fourth(func(m *cluster.Member) { m.Learner = true })
	f := finding(t, diagnose.Diagnose(w.input(t)), "KVD-RAFT-006")
	mentions(t, f.Remedy[0], "kvd member promote m4  # if a voter is to go for it: 4 voters survive as many failures as 3")
}

// A member that hears all and is sent no snapshot has moved, or has the certificate of
// where it was: that is not said to survive as many failures as before.
func TestRemedyOfAMemberWithoutItsSnapshot(t *testing.T) {
	w := healthy()
	w.down(3, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoAnswer, Msg: "nobody answers"})
	w.grow(1, `etcd_network_peer_received_bytes_total{From="3"}`, 4000)
	w.grow(1, `etcd_network_snapshot_send_failures{To="3"}`, 90)
	f := finding(t, diagnose.Diagnose(w.input(t)), "KVD-NET-001")
	mentions(t, f.Why, "cannot send it the snapshot", "no write can count on it")
	if !slices.Contains(commands(f), "kvd member update m3 --peer-urls URL") {
		t.Errorf("%q", f.Remedy)
	}
}

// A member that does not come up is told whose certificates it lacks, where one CA has
// issued all others'; where members have several, or it answers, that says nothing.
func TestRemedyOfAnotherCA(t *testing.T) {
	for name, p := range map[string]struct {
		keys []string // of the peer certificates of m1, m2 and m3
		want bool
	}{"its own": {[]string{"aa", "bb", "aa"}, true}, "that of all": {[]string{"aa", "aa", "aa"}, false}, "each its own": {[]string{"aa", "bb", "cc"}, false}, "not told": {[]string{"aa", "", "aa"}, false}} {
		w := healthy()
		for i, key := range p.keys {
			w.cert(300)
			c := &w.in.Certs[i]
			c.Member, c.Peer, c.Issuer, c.Key = uint64(i+1), true, "CN=etcd-ca", key
		}
		w.down(2, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseStarting, Msg: "it does not serve clients yet", Hint: "see its log"})
		for _, f := range diagnose.Diagnose(w.input(t)).Findings {
			if f.ID == "KVD-NET-001" && (strings.Contains(f.Summary, "another CA") != p.want || strings.Contains(f.Remedy[0], "the CA that the others have") != p.want) {
				t.Errorf("%s: %s; %q", name, f.Summary, f.Remedy)
			}
		}
	}
}
