package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// server is one member that kvd serves, in a folder of its own.
type server struct {
	cmd      *exec.Cmd
	endpoint string
	client   *clientv3.Client
}

// startServer starts it without fsync: what is measured afterwards only reads.
func startServer(ctx context.Context, kvd, dir string, args ...string) (*server, error) {
	urls, err := freeURLs(2)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &server{endpoint: urls[0]}
	s.cmd = exec.Command(kvd, append([]string{"serve", "--name", "m1", "--data-dir", filepath.Join(dir, "m1"), "--unsafe-no-fsync",
		"--listen-client-urls", urls[0], "--advertise-client-urls", urls[0], "--listen-peer-urls", urls[1],
		"--initial-advertise-peer-urls", urls[1], "--initial-cluster", "m1=" + urls[1], "--quota-backend-bytes", "8589934592", "--max-txn-ops", "1000"}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.client, err = clientv3.New(clientv3.Config{Endpoints: []string{s.endpoint}, Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
	if err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if _, err := s.client.Get(ctx, "ready"); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server did not answer: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// freeURLs finds ports that nobody listens on.
func freeURLs(n int) ([]string, error) {
	var urls []string
	var open []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		open = append(open, l)
		urls = append(urls, "http://"+l.Addr().String())
	}
	for _, l := range open { // only now, so that they differ
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	return urls, nil
}

// fill writes until the database is so many bytes long: values of 100 bytes to
// 10 KiB that hardly pack, under keys like those of Kubernetes, two of three of
// which are written again later, so that there is history.
func (s *server) fill(ctx context.Context, bytes int64) error {
	const workers, perTxn = 4, 32
	var wg sync.WaitGroup
	errs := make([]error, workers)
	full := false
	for round := 0; !full; round++ {
		for w := range workers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(w)))
				for range 25 {
					ops := make([]clientv3.Op, 0, perTxn)
					taken := map[string]bool{}
					for len(ops) < perTxn {
						key := fmt.Sprintf("/registry/pods/namespace-%02d/pod-%07d", w, rng.IntN(int(bytes/8192/workers)+1))
						if !taken[key] {
							taken[key] = true
							ops = append(ops, clientv3.OpPut(key, value(rng)))
						}
					}
					if _, err := s.client.Txn(ctx).Then(ops...).Commit(); err != nil {
						errs[w] = err
						return
					}
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		st, err := s.client.Status(ctx, s.endpoint)
		if err != nil {
			return err
		}
		full = st.DbSize >= bytes
	}
	return nil
}

// value is random bytes of a length whose logarithm is uniform.
func value(rng *rand.Rand) string {
	n := 100 << rng.IntN(7)
	return randomBytes(rng, n+rng.IntN(n))
}

func randomBytes(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		v := rng.Uint64()
		for j := range 8 {
			b[i+j] = byte(v >> (8 * j))
		}
	}
	return string(b)
}

func (s *server) stop() error {
	err := error(nil)
	if s.client != nil {
		err = s.client.Close()
	}
	if kerr := s.cmd.Process.Signal(syscall.SIGTERM); kerr != nil {
		return errors.Join(err, kerr)
	}
	_ = s.cmd.Wait() // it was told to end
	return err
}
