package diagnose_test

import (
	"strings"
	"testing"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/servertest"
)

// inTurns is a balancer before these endpoints.
func inTurns(t *testing.T, endpoints ...string) string {
	t.Helper()
	url, _ := servertest.Balancer(t, endpoints...)
	return url
}

// A balancer before two clusters is critical, also where only one in four is foreign; one
// before the members of one cluster is nothing. What stands behind it is left alone.
func TestCaseSharedEndpoint(t *testing.T) {
	t.Parallel()
	mine, theirs := begin(t, 3, 0), begin(t, 1, 0)
	belongs(t, look(t, connect(t, mine, inTurns(t, mine.Endpoints()...))))
	both := inTurns(t, append(mine.Endpoints(), theirs.Endpoint(0))...)
	r := look(t, connect(t, mine, both))
	belongs(t, r, "KVD-NET-005 critical")
	f := finding(t, r, "KVD-NET-005")
	if f.Subject != both || len(f.Evidence) != 2 || strings.Contains(strings.Join(f.Remedy, "\n"), "replace") {
		t.Errorf("%+v", f)
	}
	remedied(t, "KVD-NET-005", r, look(t, connect(t, mine, mine.Endpoint(0))), "give clients the members' own endpoints")
}

// An endpoint of somebody else's cluster, which no member of this one is known by, is taken
// out of the list, and that cluster is left alone.
func TestCaseForeignEndpoint(t *testing.T) {
	t.Parallel()
	mine, theirs := begin(t, 3, 0), begin(t, 1, 0)
	for name, endpoint := range map[string]string{"its own": theirs.Endpoint(0), "a balancer before it": inTurns(t, theirs.Endpoint(0))} {
		r := look(t, connect(t, mine, append(mine.Endpoints(), endpoint)...))
		belongs(t, r, "KVD-RAFT-012 critical")
		f := finding(t, r, "KVD-RAFT-012")
		if all := strings.Join(f.Remedy, "\n"); f.Subject != endpoint || strings.Contains(all, "member replace") || !strings.Contains(all, "take "+endpoint+" out") || f.Severity != diagnose.Critical {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A balancer before a cluster and another one with other passwords lets in by chance, which
// is said of it, though every member answers.
func TestCaseEndpointThatRefusesSome(t *testing.T) {
	t.Parallel()
	mine, theirs := begin(t, 1, 0), begin(t, 1, 0)
	mine.EnableAuth(t, servertest.User{Name: "app", Password: "p", Prefix: "/app/"})
	theirs.EnableAuth(t, servertest.User{Name: "app", Password: "q", Prefix: "/app/"})
	both := inTurns(t, mine.Endpoint(0), theirs.Endpoint(0))
	r := look(t, connectAs(t, mine, "app", "p", both))
	belongs(t, r, "KVD-NET-001 warning")
	if f := finding(t, r, "KVD-NET-001"); f.Subject != both || !strings.Contains(f.Summary, "does not let everybody in") || evidence(t, f, "cause").Text != "not_each_time" {
		t.Errorf("%+v", f)
	}
	belongs(t, look(t, connectAs(t, mine, "app", "p", inTurns(t, mine.Endpoint(0)))))
}
