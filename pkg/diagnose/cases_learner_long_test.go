//go:build long

package diagnose_test

import (
	"strings"
	"testing"
	"time"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A learner whose peer URLs are changed under an etcd that forgets what it is.
func TestCaseLearnerInRaftAlone(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Command: local.Command{Path: servertest.OldServer(t, "3.4")}}})
	ctx := servertest.Context(t, time.Minute)
	client := c.Client(t)
	i, err := c.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	added, err := client.MemberAddAsLearner(ctx, []string{c.PeerURL(i)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StartMember(ctx, i); err != nil {
		t.Fatal(err)
	}
	if told := strings.Join(of(look(t, connect(t, c)), "KVD-RAFT-006"), "\n"); !strings.Contains(told, "is a learner, 100") {
		t.Errorf("before: %s", told)
	}
	if _, err := client.MemberUpdate(ctx, added.Member.ID, []string{c.PeerURL(i), "http://localhost:1"}); err != nil {
		t.Fatal(err)
	}
	if told := strings.Join(of(look(t, connect(t, c)), "KVD-RAFT-006"), "\n"); !strings.Contains(told, c.Name(i)+" is a voter in the member list and says of itself that it is a learner") {
		t.Errorf("afterwards: %s", told)
	}
}
