package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/wal"
	"kvd/pkg/server"
)

// newServeCmd makes the one command whose flags are not kvd's: everything
// behind `kvd serve` is read by etcd's rules.
func newServeCmd(app *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:                "serve [etcd flags]",
		Short:              "Run an etcd server: etcd's own flags, environment and config file",
		DisableFlagParsing: true,

		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, args []string) error { return runServe(cmd.Context(), app, cmd, args) },
	}
	help{
		Long: `
Runs one member of an etcd cluster in this process. Flags, ETCD_* environment
variables and --config-file are etcd's own and mean what they mean there; KVD_*
variables do not apply. One thing is different: a flag that is also set in the
environment wins with a warning, where etcd refuses to start. Logs go to stderr,
as etcd's do.

--profile NAME lays defaults for a purpose under whatever else is given:
kubernetes or standalone. --print-config shows what the server would run with
and where each value comes from (-o table|json|yaml), and starts nothing.

SIGTERM, SIGINT or SIGHUP hands leadership to another member, lets running requests
end, closes the files and exits 0. Open watches are cut after etcd's request
timeout (7 s by default).`,
		Cost: "It is the server. A new member without --initial-cluster begins a cluster of its own.",
		Example: `
  kvd serve                                        # one member, clients on localhost:2379
  kvd serve --name m1 --data-dir /var/lib/etcd \
    --listen-client-urls https://10.0.0.1:2379 --advertise-client-urls https://10.0.0.1:2379 \
    --cert-file server.crt --key-file server.key --client-cert-auth --trusted-ca-file ca.crt
  kvd serve --profile kubernetes --config-file /etc/etcd/etcd.yaml
  kvd serve --profile kubernetes --print-config | grep -v default`,
		Exits: []int{4, 5, 7},
	}.apply(cmd)
	cmd.SetUsageTemplate(serveUsageTemplate)
	generic := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		generic(c, args)
		drawProfiles(c.OutOrStdout())
		fmt.Fprintf(c.OutOrStdout(), "\nETCD FLAGS (each also as an environment variable: --data-dir is ETCD_DATA_DIR)\n%s", server.FlagUsages())
	})
	return cmd
}

// runServe runs the server until it is told to stop or ends by itself.
func runServe(ctx context.Context, app *App, cmd *cobra.Command, args []string) error {
	cfg, err := server.Parse(args, app.Environ())
	if err != nil {
		return err
	}
	switch {
	case cfg.ShowHelp:
		return cmd.Help()
	case cfg.ShowVersion:
		_, err := fmt.Fprint(app.IO.Out, server.VersionText())
		return err
	}
	if cfg.PrintConfig {
		return printServeConfig(app, cfg)
	}
	if cfg.Etcd().ForceNewCluster {
		if err := wal.CheckForce(ctx, cfg.WALDir(), cfg.DBPath()); err != nil {
			return err
		}
	}
	srv, err := server.Start(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil && fault.KindOf(err) == fault.Interrupted {
			return nil // asked to stop before it had started, and it has
		}
		return err
	}
	select {
	case <-ctx.Done():
		// Draining has its own limits inside etcd, so there is none here; a
		// supervisor's patience ends it, or a third signal.
		return srv.Stop(context.WithoutCancel(ctx))
	case err := <-srv.Err():
		return err
	case <-srv.Done():
		select {
		case err := <-srv.Err():
			return err
		default:
			if srv.Removed() { // it stops by itself and exits 0, as etcd's does
				// It goes by what it was told: by an entry of its log, or by a peer that answers
				// 410, which one that was started with --force-new-cluster does, whatever it lacks.
				app.warn("this member was removed from its cluster and has stopped. Keep its data directory (%s): if the others were begun anew with --force-new-cluster, "+
					"or from a snapshot, it may hold what they lack (kvd diagnose --data-dir DIR --data-dir DIR compares them). "+
					"To let it join again: move that directory away, kvd member add, then start it with an empty one", cfg.Etcd().Dir)
			}
			return nil
		}
	}
}

// serveUsageTemplate is the common one without kvd's flags, which do not apply.
const serveUsageTemplate = `USAGE
  {{.UseLine}}

EXAMPLES
{{.Example}}

COST
  {{index .Annotations "cost"}}

EXIT STATUS
{{index .Annotations "exit-status"}}
`
