package lead

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// counts is how many defragmentations each member has completed.
type counts map[uint64]uint64

// blind takes a turn where no lease can be had. There is nothing left in etcd
// that only one of two could take without changing what is stored, so it goes by
// what can be seen: it waits for a random time, then looks twice, further apart
// than a run pauses between two members, and refuses if anybody holds the
// election or any member is being defragmented or was so in between. The turn
// goes on looking before each step, since a plan takes its time. What is left is
// two processes whose last looks before their first step fall into the same
// moment: both ask the same member first, and each then sees the other's.
func (e *Elector) blind(ctx context.Context) (*Turn, error) {
	delay := time.Duration(0)
	if e.opts.BlindMax > 0 {
		delay = rand.N(e.opts.BlindMax)
	}
	e.say("no lease can be had under NOSPACE: waiting %s, then looking twice whether anybody is at it", delay.Round(100*time.Millisecond))
	if err := wait.For(ctx, delay); err != nil {
		return nil, err
	}
	known, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	if err := wait.For(ctx, e.opts.BlindGap); err != nil {
		return nil, err
	}
	t := &Turn{e: e, known: known}
	return t, t.look(ctx)
}

// look compares what every member has completed with what is known.
func (t *Turn) look(ctx context.Context) error {
	now, err := t.e.look(ctx)
	if err != nil {
		return err
	}
	for id, n := range now {
		if was, ok := t.known[id]; ok && n != was {
			return busy(fmt.Sprintf("%s was defragmented just now by somebody else, or was restarted", cluster.FormatID(id)))
		}
	}
	return nil
}

// look returns what every member has completed, or an error of kind Refused that
// says who is at it.
func (e *Elector) look(ctx context.Context) (counts, error) {
	kv, err := first(ctx, e.client, e.prefix())
	if err != nil {
		return nil, err
	}
	if kv != nil {
		return nil, e.other(ctx, kv)
	}
	view, err := e.client.VotersView(ctx)
	if err != nil {
		return nil, err
	}
	out, at := e.inflight(ctx, view)
	if at != "" {
		return nil, busy(at)
	}
	return out, nil
}

// inflight asks every member's metrics what it has completed. If one is being
// defragmented, or may be, it says which instead.
func (e *Elector) inflight(ctx context.Context, view cluster.View) (_ counts, at string) {
	http := e.client.HTTPClient()
	defer http.CloseIdleConnections()
	out := counts{}
	for _, m := range view.Members {
		s, err := metrics.FetchOf(ctx, http, e.opts.Metrics.For(m.Name, cluster.FormatID(m.ID), m.Endpoint), m.ID)
		if err != nil {
			if m.Status == nil {
				return nil, fmt.Sprintf("%s answers neither its status nor its metrics, so whether it is being defragmented is not known", m.Label())
			}
			continue // a member that is being defragmented does not answer its status
		}
		if s.Defragmenting() {
			return nil, m.Label() + " is being defragmented"
		}
		out[m.ID] = completed(s)
	}
	return out, ""
}

func completed(s *metrics.Sample) uint64 {
	h, _ := s.Histogram(metrics.DefragDuration, nil)
	return h.Count
}

func busy(msg string) error {
	return &fault.Error{Kind: fault.Refused, Cause: CauseBusy, Op: "run", Msg: msg, Hint: "the next tick looks again"}
}

func (e *Elector) say(format string, args ...any) {
	e.opts.Sink.Event(progress.Event{Op: e.opts.Op, Phase: "standing for election", Note: fmt.Sprintf(format, args...), Warning: true})
}
