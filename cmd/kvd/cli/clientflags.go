package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/config"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// clientFlags are what every command has that talks to a cluster. Their names
// are etcdctl's where etcdctl has them. A flag that is not given says nothing:
// the value then comes from elsewhere, see config.Resolve.
type clientFlags struct {
	clusterName string
	fs          *pflag.FlagSet // tells which flags were given
	except      []string       // flags that mean something else in this command line
}

// addFlags adds the flags. They are read through the flag set, so that a flag
// that was given empty can be told from one that was not given.
func (f *clientFlags) addFlags(fs *pflag.FlagSet) {
	f.fs = fs
	fs.StringVar(&f.clusterName, "cluster-name", "", "use this cluster of the config file")
	fs.StringSlice(config.Endpoints, nil, "where etcd's clients connect, comma-separated or repeated (default http://127.0.0.1:2379)")
	fs.String(config.CACert, "", "CA that signed the servers' certificates (PEM file)")
	fs.String(config.Cert, "", "client certificate (PEM file)")
	fs.String(config.Key, "", "key of the client certificate (PEM file)")
	fs.String(config.ServerName, "", "name to look for in the servers' certificates, instead of the endpoint's host")
	fs.Bool(config.SkipVerify, false, "accept any server certificate (for tests only)")
	fs.Bool(config.Insecure, true, "no TLS for an endpoint without a scheme, unless certificates are given")
	fs.String(config.User, "", "user, or user:password (asked for on a terminal if no password is given)")
	fs.String(config.Password, "", "password; visible in the list of processes, so rather use --password-file or KVD_PASSWORD")
	fs.String(config.PasswordFile, "", "file whose first line is the password")
	fs.Duration(config.DialTimeout, cluster.DefaultDialTimeout, "how long one endpoint may take to connect, or to show why it does not")
	fs.Duration(config.CommandTimeout, cluster.DefaultCommandTimeout, "how long one request may take (compacting and defragmenting excepted)")
	fs.Duration(config.MemberTimeout, cluster.DefaultMemberTimeout, "how long one member may take to tell its status")
	fs.Duration(config.KeepaliveTime, cluster.DefaultKeepaliveTime, "how often an idle connection is checked")
	fs.Duration(config.KeepaliveTimeout, cluster.DefaultKeepaliveTimeout, "how long that check may take")
	for _, name := range []string{config.KeepaliveTime, config.KeepaliveTimeout, config.Insecure} {
		_ = fs.MarkHidden(name)
	}
}

// given returns the flags that were given, by name.
func (f clientFlags) given() map[string]string {
	out := map[string]string{}
	if f.fs == nil {
		return out
	}
	f.fs.Visit(func(fl *pflag.Flag) {
		if slices.Contains(f.except, fl.Name) {
			return
		}
		if s, ok := fl.Value.(pflag.SliceValue); ok {
			out[fl.Name] = strings.Join(s.GetSlice(), ",")
			return
		}
		out[fl.Name] = fl.Value.String()
	})
	return out
}

// resolve finds the bundle.
func (a *App) resolve(f clientFlags) (config.Bundle, *config.File, error) {
	file, err := config.Load(a.Global.ConfigFile, a.Getenv)
	if err != nil {
		return config.Bundle{}, nil, err
	}
	b, err := config.Resolve(config.Input{
		Flags: f.given(), ClusterName: f.clusterName, Getenv: a.Getenv, File: file, Root: a.Root,
	})
	return b, file, err
}

// connect resolves the bundle and returns a client. Nothing is sent yet.
func (a *App) connect(f clientFlags) (*cluster.Client, error) {
	b, _, err := a.resolve(f)
	if err != nil {
		return nil, err
	}
	for _, w := range b.Warnings {
		a.warn("%s", w)
	}
	if b.Config.User != "" && b.Config.Password == "" {
		if b.Config.Password, err = a.askPassword(b.Config.User); err != nil {
			return nil, err
		}
	}
	return cluster.Connect(b.Config)
}

// look connects, takes a picture of the cluster, and has it used.
func (a *App) look(ctx context.Context, f clientFlags, use func(*cluster.Client, cluster.View) error) error {
	client, err := a.connect(f)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing was written, or the plan has verified what it did
	view, err := client.View(ctx)
	if err != nil {
		return err
	}
	return use(client, view)
}

// warnForeign tells whoever is about to read that it may be another cluster than the one
// that is meant.
func (a *App) warnForeign(view cluster.View) {
	if err := view.OneCluster(""); err != nil {
		a.warn("%s; read is %s: %s", fault.Why(err), cluster.FormatID(view.ID), fault.HintOf(err))
	}
}

// whereIs says which cluster a client talks to, and who said so.
func whereIs(client *cluster.Client) string {
	c := client.Config()
	return strings.Join(c.Endpoints, ",") + " (from " + c.Source + ")"
}
