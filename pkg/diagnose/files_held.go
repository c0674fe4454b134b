package diagnose

import (
	"context"
	"strings"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
)

// Held is what a file has of live keys, as far as its size or its leases are of concern.
type Held struct {
	Groups []keyspace.Group // by resource or prefix, the one with most bytes first
	Leases []HeldLease      // with most keys first; only where one may have too many
}

// HeldLease is a lease and the live keys that were last put with it.
type HeldLease struct {
	ID   string
	Keys int64
}

// heldTop is how many groups and leases are kept.
const heldTop = 100

// readHeld reads the live keys of a file in which all pages are well, once for their
// sizes, and once more where as many are on leases as are too many for one.
//
// What keeps it from being read is noted: that a file is damaged others tell. The error
// is ctx's.
func (in *Input) readHeld(ctx context.Context, path string, v *snapshot.Verification, o DirOptions, sink progress.Sink) (*Held, error) {
	if v.Content == nil || v.Verdict == snapshot.NotRestorable || v.Content.Keys == 0 {
		return nil, nil //nolint:nilnil // there is nothing to tell
	}
	held, err := in.countHeld(ctx, path, v, o, sink)
	switch {
	case ctx.Err() != nil:
		return nil, err
	case err != nil:
		in.Missing = append(in.Missing, Missing{Need: NeedHeld, Subject: path, Why: fault.Why(err), Hint: fault.HintOf(err), Cause: fault.CauseOf(err)})
	}
	return held, nil
}

func (in *Input) countHeld(ctx context.Context, path string, v *snapshot.Verification, o DirOptions, sink progress.Sink) (*Held, error) {
	file, err := keyspace.OpenFile(ctx, path, keyspace.FileOptions{SpoolDir: o.SpoolDir, Op: op, Sink: sink})
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	by := keyspace.DefaultBreakdownOptions()
	by.By = keyspace.ByPrefix
	b, err := keyspace.BreakdownFile(ctx, file, by)
	if err != nil {
		return nil, err
	}
	out := &Held{}
	for _, p := range b.Groups[:min(heldTop, len(b.Groups))] {
		g := keyspace.Group{Prefix: p.Name, Keys: p.Keys, Bytes: keyspace.Estimate{Bytes: float64(p.Live)}}
		if p.Largest != nil {
			g.Largest = p.Largest.Bytes
		}
		if !strings.HasPrefix(string(p.Name), "/") {
			g.Resource = string(p.Name)
		}
		out.Groups = append(out.Groups, g)
	}
	if float64(v.Content.Leases.Keys) < in.Limits.LeaseKeys {
		return out, nil
	}
	by.By = keyspace.ByLease
	if b, err = keyspace.BreakdownFile(ctx, file, by); err != nil {
		return nil, err
	}
	for _, p := range b.Groups {
		if p.Name != keyspace.GroupNoLease && p.Name != keyspace.GroupOther && p.Keys > 0 {
			out.Leases = append(out.Leases, HeldLease{string(p.Name), p.Keys})
		}
	}
	return out, nil
}
