//go:build long

package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// TestClaimsWithoutQuorum asks the one member that is left of three for what the
// page says of such a member: which requests it answers, and how the others end.
func TestClaimsWithoutQuorum(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{
		Members: 3, Command: local.Command{Path: servertest.Binary(t), Args: []string{"serve"}},
	}})
	ctx, left := servertest.Context(t, time.Minute), c.Endpoints()[0]
	mustPut(ctx, t, c.Client(t), "k", "v")
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{left}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	c.Kill(1)
	c.Kill(2)
	for leader := uint64(1); leader != 0; {
		s, err := etcd.Status(ctx, left) // answers all the while
		if err != nil {
			t.Fatal(err)
		}
		leader = s.Leader
	}
	if r, err := etcd.Get(ctx, "k", clientv3.WithSerializable()); err != nil || len(r.Kvs) != 1 {
		t.Errorf("serializable read: %v", err)
	}
	// etcd's Go client repeats what the server ends with DeadlineExceeded.
	plain, err := grpc.NewClient(strings.TrimPrefix(left, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	ends := map[string]func(context.Context) error{
		"put, context deadline exceeded": func(ctx context.Context) error {
			_, err := pb.NewKVClient(plain).Put(ctx, &pb.PutRequest{Key: []byte("k")})
			return err
		},
		"alarm, context deadline exceeded": func(ctx context.Context) error {
			_, err := pb.NewMaintenanceClient(plain).Alarm(ctx, &pb.AlarmRequest{})
			return err
		},
		"read, etcdserver: request timed out": func(ctx context.Context) error {
			_, err := pb.NewKVClient(plain).Range(ctx, &pb.RangeRequest{Key: []byte("k")})
			return err
		},
		"lead, etcdserver: no leader": func(ctx context.Context) error {
			_, err := etcd.Put(clientv3.WithRequireLeader(ctx), "k", "w")
			return err
		},
	}
	var wg sync.WaitGroup
	for want, do := range ends {
		wg.Go(func() {
			began := time.Now()
			err := do(ctx)
			what, words, _ := strings.Cut(want, ", ")
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v, want %q", what, err, words)
			}
			took := time.Since(began)
			if took > 30*time.Second {
				t.Errorf("%s: the server took %s to give up, 7 s are said", what, took)
			}
			t.Logf("%s: %v after %s", what, err, took.Round(time.Second))
		})
	}
	wg.Wait()
}
