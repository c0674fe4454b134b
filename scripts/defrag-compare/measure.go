package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// result is one tool's round.
type result struct {
	Tool        string         `json:"tool"`
	Sent        int            `json:"sent"`
	Failed      int            `json:"failed"`
	Errors      map[string]int `json:"errors,omitempty"`
	ByMember    []int          `json:"failed_by_member"`
	LeaderMoves int            `json:"leader_moves"`
	NearMoves   int            `json:"failed_within_2s_of_a_leader_move"`
	MoveErrors  []string       `json:"failed_near_moves,omitempty"`
	Defrags     []float64      `json:"defrag_seconds"`
	ToolSeconds float64        `json:"tool_seconds"`
}

func (r result) String() string {
	return fmt.Sprintf("%-8s failed %d of %d (by member %v, %v), leader moves %d, failed within 2 s of one %d %v; defrags took %.2f s, the tool %.1f s",
		r.Tool, r.Failed, r.Sent, r.ByMember, r.Errors, r.LeaderMoves, r.NearMoves, r.MoveErrors, r.Defrags, r.ToolSeconds)
}

const around = 2 * time.Second // how far from a leader move a failure counts as near it

func measure(ctx context.Context, o options, tool string) (r result, err error) {
	dir := filepath.Join(o.Dir, "run")
	if err := copyTree(filepath.Join(o.Dir, "origin"), dir); err != nil {
		return r, err
	}
	g, err := startCluster(ctx, o.Etcd, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	endpoints, hooks := g.endpoints, []string(nil)
	if o.Drain {
		// Also for those that do not drain, so that the path is the same for all.
		fs, err := newFronts(g)
		if err != nil {
			return r, err
		}
		defer fs.close()
		endpoints = fs.endpoints()
		if tool == "kvd+drain" {
			hooks = []string{"--before-member", hook(fs.url, "drain"), "--after-member", hook(fs.url, "restore")}
		}
	}
	l, err := newLoad(endpoints, o)
	if err != nil {
		return r, err
	}
	defer l.close()
	loadCtx, stopLoad := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { l.run(loadCtx) })
	pause(ctx, 5*time.Second)
	began := time.Now()
	toolErr := runTool(ctx, o, tool, g, hooks)
	r.ToolSeconds = time.Since(began).Seconds()
	pause(ctx, 5*time.Second)
	stopLoad()
	wg.Wait()
	if toolErr != nil {
		return r, toolErr
	}
	r.Tool, r.Sent, r.Errors, r.ByMember = tool, len(l.done), map[string]int{}, make([]int, len(l.clients))
	moves, defrags, err := readLogs(dir, began)
	r.Defrags, r.LeaderMoves = defrags, len(moves)
	for _, f := range l.failed() {
		r.Failed++
		r.Errors[f.err.Error()]++
		r.ByMember[f.endpoint]++
		// A failed put is near a move if any moment of it is.
		if slices.ContainsFunc(moves, func(m time.Time) bool { return f.due.Add(f.took).After(m.Add(-around)) && f.due.Before(m.Add(around)) }) {
			r.NearMoves++
			r.MoveErrors = append(r.MoveErrors, fmt.Sprintf("m%d due %+.3fs after the move, ended after %.3fs", f.endpoint+1, f.due.Sub(nearest(moves, f.due)).Seconds(), f.took.Seconds()))
		}
	}
	return r, err
}

func nearest(moves []time.Time, t time.Time) time.Time {
	return slices.MinFunc(moves, func(a, b time.Time) int { return int(a.Sub(t).Abs() - b.Sub(t).Abs()) })
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func hook(url, order string) string {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return fmt.Sprintf("'%s' -order %s %s", self, url, order)
}

func runTool(ctx context.Context, o options, tool string, g *group, hooks []string) error {
	args := []string{"defrag", "--endpoints", strings.Join(g.endpoints, ",")}
	bin := o.Kvd
	if tool == "etcdctl" {
		// The default timeout of 5 s would end etcdctl before the server is done.
		bin, args = o.Etcdctl, append(args, "--cluster", "--command-timeout", "5m")
	} else {
		args = append(append(append(args, "--yes", "--progress", "none"), hooks...), strings.Fields(o.KvdArgs)...)
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// readLogs takes from the members' own logs when somebody became leader after
// the given time, and how long each defragmentation took.
func readLogs(dir string, since time.Time) (moves []time.Time, defrags []float64, err error) {
	for i := range 3 {
		f, err := os.Open(filepath.Join(dir, fmt.Sprintf("m%d.log", i+1)))
		if err != nil {
			return nil, nil, err
		}
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			var line struct {
				TS   string `json:"ts"`
				Msg  string `json:"msg"`
				Took string `json:"took"`
			}
			if json.Unmarshal(sc.Bytes(), &line) != nil {
				continue
			}
			ts, err := time.Parse("2006-01-02T15:04:05.000000Z0700", line.TS)
			if err != nil || ts.Before(since) {
				continue
			}
			if strings.Contains(line.Msg, "became leader at term") {
				moves = append(moves, ts)
			}
			if line.Msg == "finished defragmenting directory" {
				if took, err := time.ParseDuration(line.Took); err == nil {
					defrags = append(defrags, took.Seconds())
				}
			}
		}
		_ = f.Close()
	}
	return moves, defrags, nil
}
