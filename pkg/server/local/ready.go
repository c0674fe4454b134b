package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"kvd/pkg/ops/fault"
)

// healthPeriod is how often a member is asked whether it is well.
const healthPeriod = 50 * time.Millisecond

// causePort marks a start that failed because a port was taken.
const causePort = "address_in_use"

// waitJoined waits until the member has said that it has joined its cluster.
func (m *member) waitJoined(ctx context.Context) error {
	m.mu.Lock()
	p, n := m.proc, m.notify
	m.mu.Unlock()
	if p == nil {
		return &fault.Error{Kind: fault.Unavailable, Cause: "not_running", Op: "start", Subject: m.name, Msg: "it was never started"}
	}
	select {
	case <-n.ready:
		return nil
	case <-p.exited:
		return m.endedEarly(p)
	case <-ctx.Done():
		return m.notReady(ctx, "it has not joined its cluster (is a quorum running?)")
	}
}

// waitHealthy waits until the member serves linearizable reads, alarms or not.
func (m *member) waitHealthy(ctx context.Context) error {
	p := m.process()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(healthPeriod)
	defer tick.Stop()
	for {
		answer := m.health(ctx, client)
		if answer == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return m.endedEarly(p)
		case <-ctx.Done():
			return m.notReady(ctx, answer)
		}
	}
}

// health is empty for a healthy member, else what is wrong.
func (m *member) health(ctx context.Context, client *http.Client) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.metricsURL+"/health?exclude=NOSPACE&exclude=CORRUPT", nil)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("/health answers %d: %s", resp.StatusCode, strings.TrimSpace(string(body)))
	}
	return ""
}

func (m *member) endedEarly(p *process) error {
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
		return &fault.Error{Kind: fault.Unavailable, Cause: CauseExited, Op: "start", Subject: m.name,
			Msg:  "was killed (SIGKILL) before it was ready, and not by kvd", // whatever it said last is not why
			Hint: "a kernel that is short of memory does that: look at the limit of this container or service, and at what the kernel's log (dmesg) says of it"}
	}
	words := lastWords(m.logPath())
	e := &fault.Error{Kind: fault.Unavailable, Cause: CauseExited, Op: "start", Subject: m.name,
		Msg:  fmt.Sprintf("ended with %s before it was ready: %s", p.cmd.ProcessState, words),
		Hint: m.hint()}
	if strings.Contains(words, "address already in use") {
		e.Cause = causePort
	}
	return e
}

func (m *member) notReady(ctx context.Context, why string) error {
	return &fault.Error{Kind: fault.Unavailable, Cause: "not_ready", Op: "start", Subject: m.name,
		Msg:  fmt.Sprintf("not ready in time: %s; last in its log: %s", why, lastWords(m.logPath())),
		Hint: m.hint(), Err: context.Cause(ctx)}
}

// hint is what the member says is to be done, else where its log is, as long as that
// does not go with a folder of ours.
func (m *member) hint() string {
	switch said := lastHint(m.logPath()); {
	case said != "":
		return said
	case m.cluster.ownRoot:
		return ""
	}
	return "its log is " + m.logPath()
}
