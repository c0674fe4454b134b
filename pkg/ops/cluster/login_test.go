package cluster_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// stuck greets, and then passes nothing on of what the server answers: a member that
// takes requests and cannot serve them, as one that is cut off from its peers.
func stuck(t *testing.T, to string) string {
	t.Helper()
	return "http://" + listener(t, func(conn net.Conn) {
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		t.Cleanup(func() { server.Close() })
		go func() { _, _ = io.Copy(server, conn) }()
		greeting := make([]byte, 64<<10)
		if n, err := server.Read(greeting); err == nil {
			_, _ = conn.Write(greeting[:n])
		}
	})
}

// late passes everything on, after a moment.
func late(t *testing.T, to string) string {
	t.Helper()
	return "http://" + listener(t, func(conn net.Conn) {
		<-time.After(300 * time.Millisecond)
		servertest.Pipe(conn, to)
	})
}

// withAuth is a cluster of one that wants a user, and a bundle with root's password.
func withAuth(t *testing.T) (*servertest.Cluster, cluster.Config) {
	t.Helper()
	s := servertest.Start(t, servertest.Options{Options: local.Options{}})
	s.EnableAuth(t)
	cfg := ep(s.Endpoints()...)
	cfg.User, cfg.Password = "root", servertest.RootPassword
	return s, cfg
}

// One member that cannot log anybody in does not keep the others from it.
func TestLoginWhereOneMemberIsStuck(t *testing.T) {
	t.Parallel()
	s, cfg := withAuth(t)
	cfg.Endpoints = []string{stuck(t, hostOf(s.Endpoint(0))), late(t, hostOf(s.Endpoint(0)))}
	c := connect(t, cfg)
	begun := time.Now()
	v := view(t, c)
	if len(v.Members) != 1 || v.Members[0].Status == nil || v.Members[0].Endpoint != cfg.Endpoints[1] || v.ListErr != nil {
		t.Errorf("view %+v", v)
	}
	if took := time.Since(begun); took > 9*time.Second {
		t.Errorf("took %v", took)
	}
}

// Whoever waits for another's login waits no longer than its own context lets it, and
// does not take it for its own end when the other gives up.
func TestLoginIsNotEndedByAnother(t *testing.T) {
	t.Parallel()
	s, cfg := withAuth(t)
	cfg.Endpoints = []string{stuck(t, hostOf(s.Endpoint(0)))}
	c := connect(t, cfg)
	m, err := c.At(cfg.Endpoints[0])
	if err != nil {
		t.Fatal(err)
	}
	first, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := m.Status(first)
		ended <- err
	}()
	<-time.After(200 * time.Millisecond) // it asks by now
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := m.Status(short); fault.CauseOf(err) != cluster.CauseDeadline {
		t.Errorf("with a short deadline: %v", err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("a deadline of 300 ms took %v", took)
	}
	go func() {
		_, err := m.Status(t.Context())
		ended <- err
	}()
	<-time.After(200 * time.Millisecond)
	giveUp()
	if err := <-ended; fault.CauseOf(err) != cluster.CauseCanceled {
		t.Errorf("who gave up: %v", err)
	}
	if err := <-ended; fault.KindOf(err) != fault.Unavailable {
		t.Errorf("who did not give up: %v", err)
	}
}
