// This file is a stop-gap: the bundle rule (flags, environment, config file) replaces it as a whole.

package cli

import (
	"context"

	"github.com/spf13/pflag"

	"kvd/pkg/ops/cluster"
)

type clientFlags struct{ eps []string }

func (f *clientFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.eps, "endpoints", []string{"http://127.0.0.1:2379"}, "endpoints")
}

func (a *App) connect(ctx context.Context, f clientFlags) (*cluster.Client, error) {
	return cluster.Connect(ctx, cluster.Config{Endpoints: f.eps, Source: "flags"})
}
