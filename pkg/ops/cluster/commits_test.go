package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Members that advertise an address which leads nowhere from here, or to another of
// them, run all the same: a quorum that commits is not called lost. Where it is lost
// indeed, and the leader has not noticed yet, it is.
func TestAQuorumThatIsNotReachedIsNotLost(t *testing.T) {
	t.Parallel()
	s := three(t, local.Options{Args: []string{"--advertise-client-urls=http://127.0.0.1:9"}})
	v := view(t, connect(t, ep(s.Endpoint(1))))
	if !v.Commits || v.Leader == 0 || len(v.Silent()) != 2 || v.FailuresTolerated() != 0 {
		t.Errorf("commits %v, leader %x, members %s", v.Commits, v.Leader, names(v))
	}
	if len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "1 of 3 voters answer here") || !strings.Contains(v.Notes[0], "m1 (") || !strings.Contains(v.Notes[0], "--endpoints that lead to them") {
		t.Errorf("notes %q", v.Notes)
	}
	if all := view(t, connect(t, ep(s.Endpoints()...))); all.Commits || len(all.Notes) != 0 || len(all.Silent()) != 0 {
		t.Errorf("all reached: commits %v, notes %q, members %s", all.Commits, all.Notes, names(all))
	}
	leader := s.Leader(t)
	for i := range 3 {
		if i != leader {
			s.Kill(i)
		}
	}
	if v = view(t, connect(t, cluster.Config{Endpoints: []string{s.Endpoint(leader)}})); v.Commits {
		t.Errorf("two of three are dead: commits %v, notes %q", v.Commits, v.Notes)
	}
}

// Who defragments answers no client where it is, and votes: no other endpoint leads to it.
func TestAVoterThatDefragmentsIsNotElsewhere_more(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{Options: local.Options{Members: 2, Args: []string{"--unsafe-no-fsync"}}})
	leader := s.Leader(t)
	value := strings.Repeat("x", 1<<20)
	for range 20 { // more than what a snapshot is sent of before somebody reads it
		if _, err := s.Client(t).Put(t.Context(), "k", value); err != nil {
			t.Fatal(err)
		}
	}
	busy, err := connect(t, ep(s.Endpoint(1-leader))).At(s.Endpoint(1 - leader))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(servertest.Context(t, time.Minute))
	stream, err := busy.Etcd().Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // it waits for the snapshot to be sent, as for any reader
		defer close(done)
		_ = busy.Defragment(ctx) //nolint:errcheck // it is given up
	}()
	defer func() { <-done }()
	defer stream.Close()
	defer cancel()
	c := connect(t, cluster.Config{Endpoints: []string{s.Endpoint(leader)}, MemberTimeout: time.Second})
	var v cluster.View
	for v = view(t, c); len(v.Silent()) == 0; v = view(t, c) {
		if ctx.Err() != nil {
			t.Fatal("it answers although it defragments")
		}
	}
	if !v.Commits || !slices.ContainsFunc(v.Notes, func(n string) bool { return strings.Contains(n, "as while a member defragments") }) ||
		strings.Contains(strings.Join(v.Notes, " "), "--endpoints") {
		t.Errorf("commits %v, members %s, notes %q", v.Commits, names(v), v.Notes)
	}
}
