package cli

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/progress"
)

// sourceFlags say where keys are read from: the file that is named (SOURCE), or,
// where none is, a member of a running cluster.
type sourceFlags struct {
	client   clientFlags
	member   string
	rate     byteSize
	spoolDir string
	kube     kubePrefix
	// streams says that the result goes out while it is read, which shows well
	// enough how far a member's keys are read.
	streams bool
}

// defaultReadRate is keyspace's own.
const defaultReadRate = 64 << 20

func (f *sourceFlags) addFlags(fs *pflag.FlagSet) {
	f.rate = defaultReadRate
	f.client.addFlags(fs)
	fs.StringVar(&f.member, "member", "", "read from this member, by name or ID (default: the follower that lags least)")
	fs.Var(&f.rate, "limit-rate", "read at most this much in a second from a member")
	fs.StringVar(&f.spoolDir, "spool-dir", "", "folder for what does not fit into memory, and for the content of a compressed snapshot (default: the system's)")
	f.kube.addFlags(fs)
}

// layout says where Kubernetes' objects are.
func (f *sourceFlags) layout() keys.Layout { return f.kube.in(keys.Default()) }

// check finds flags that make no sense together, before anything is read. path is
// SOURCE, or empty.
func (f *sourceFlags) check(op, path string) error {
	switch {
	case f.rate <= 0:
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: op, Msg: "--limit-rate needs a size above zero"}
	case path != "" && f.member != "":
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: op, Msg: "--member is a member of a running cluster, and " + path + " is a file: give one of them"}
	}
	return nil
}

// source is a key space that is open. Of a running cluster it has the client, the
// view that the member was chosen in, and the member.
type source struct {
	keyspace.Source
	client *cluster.Client
	view   cluster.View
	member cluster.Member
}

// Close releases the file, or the connections.
func (s source) Close() error {
	err := s.Source.Close()
	if s.client != nil {
		err = errors.Join(err, s.client.Close())
	}
	return err
}

// open opens SOURCE, or the member of a running cluster if it is empty.
func (f *sourceFlags) open(ctx context.Context, app *App, op, path string) (source, error) {
	if path != "" {
		s, err := keyspace.OpenFile(ctx, path, keyspace.FileOptions{SpoolDir: f.spoolDir, Op: op, Sink: app.Progress()})
		if err != nil {
			return source{}, err
		}
		if h, live := s.Holder(); live {
			app.warn("%s is held by %s, which may be ahead of it; without a path the server itself is asked", s.Path(), h)
		}
		return source{Source: s}, nil
	}
	return f.openMember(ctx, app, op, f.member)
}

// openMember opens a member of a running cluster, the one that minds least if none
// is named.
func (f *sourceFlags) openMember(ctx context.Context, app *App, op, name string) (source, error) {
	client, err := app.connect(f.client)
	if err != nil {
		return source{}, err
	}
	s, err := f.chosen(ctx, app, client, op, name)
	if err != nil {
		return source{}, errors.Join(err, client.Close())
	}
	return s, nil
}

func (f *sourceFlags) chosen(ctx context.Context, app *App, client *cluster.Client, op, name string) (source, error) {
	view, err := client.View(ctx)
	if err != nil && len(view.Answered()) == 0 {
		return source{}, err
	}
	app.warnForeign(view)
	m, err := reader(view, op, name)
	if err != nil {
		return source{}, err
	}
	mc, err := client.Member(m.ID)
	if err != nil {
		return source{}, err
	}
	sink := app.Progress()
	if f.streams {
		sink = warnings{sink}
	}
	live := keyspace.OpenLive(mc, keyspace.LiveOptions{Layout: f.layout(), Timeout: client.Config().CommandTimeout,
		BytesPerSecond: int64(f.rate), SpoolDir: f.spoolDir, Op: op, Sink: sink})
	return source{Source: live, client: client, view: view, member: m}, nil
}

// warnings lets pass what is more than progress.
type warnings struct{ to progress.Sink }

func (w warnings) Event(e progress.Event) {
	if e.Warning {
		w.to.Event(e)
	}
}

// reader chooses the member to read from.
func reader(view cluster.View, op, name string) (cluster.Member, error) {
	if name != "" {
		m, err := view.FindMember(name)
		if err == nil && m.Err != nil {
			err = m.Err
		}
		return m, err
	}
	if all := view.Readers(); len(all) > 0 {
		return all[0], nil
	}
	if err := view.VotersErr(op); err != nil {
		return cluster.Member{}, err
	}
	return cluster.Member{}, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoEndpoint, Op: op, Msg: "no voter answers, so what is stored cannot be read"}
}
