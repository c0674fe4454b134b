package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// group is three members on loopback, each a process of its own.
type group struct {
	dir       string
	endpoints []string
	procs     []*exec.Cmd
}

func startCluster(ctx context.Context, bin, dir string) (*group, error) {
	ports, err := ports(dir)
	if err != nil {
		return nil, err
	}
	g := &group{dir: dir}
	var initial []string
	for i := range 3 {
		initial = append(initial, fmt.Sprintf("m%d=http://127.0.0.1:%s", i+1, ports[2*i+1]))
	}
	for i := range 3 {
		name, home := fmt.Sprintf("m%d", i+1), filepath.Join(dir, fmt.Sprintf("m%d", i+1))
		client, peer := "http://127.0.0.1:"+ports[2*i], "http://127.0.0.1:"+ports[2*i+1]
		log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return nil, errors.Join(err, g.stop())
		}
		cmd := exec.Command(bin, "--name", name, "--data-dir", home, "--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(initial, ","),
			"--quota-backend-bytes", "8589934592", "--initial-cluster-token", "defrag-compare")
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(err, g.stop())
		}
		_ = log.Close()
		g.procs, g.endpoints = append(g.procs, cmd), append(g.endpoints, client)
	}
	if err := g.ready(ctx); err != nil {
		return nil, errors.Join(err, g.stop())
	}
	return g, nil
}

// ports returns six port numbers for the members in dir: new free ones, kept in
// a file since a copy of the folders must run on the same.
func ports(dir string) ([]string, error) {
	file := filepath.Join(dir, "ports")
	if b, err := os.ReadFile(file); err == nil {
		return strings.Fields(string(b)), nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var out []string
	for range 6 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		out = append(out, port)
	}
	return out, os.WriteFile(file, []byte(strings.Join(out, "\n")), 0o644)
}

// ready waits until a write through every endpoint succeeds.
func (g *group) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, ep := range g.endpoints {
		c, err := clientv3.New(clientv3.Config{Logger: zap.NewNop(), Endpoints: []string{ep}})
		if err != nil {
			return err
		}
		for {
			try, cancelTry := context.WithTimeout(ctx, 2*time.Second)
			_, err = c.Put(try, "ready", ep)
			cancelTry()
			if err == nil || ctx.Err() != nil {
				break
			}
		}
		if err := errors.Join(err, c.Close()); err != nil {
			return fmt.Errorf("%s: %w", ep, err)
		}
	}
	return nil
}

func (g *group) stop() error {
	for _, p := range g.procs {
		_ = p.Process.Signal(syscall.SIGTERM)
	}
	var errs []error
	for _, p := range g.procs {
		killer := time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() })
		err := p.Wait()
		killer.Stop()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			errs = append(errs, err)
		}
	}
	g.procs = nil
	return errors.Join(errs...)
}

// copyTree makes a fresh copy of the folders, which the members then run on.
func copyTree(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	// What the copy left in the page cache is written back now, not during the
	// measurement.
	syscall.Sync()
	return nil
}
