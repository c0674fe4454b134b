package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/config"
	"kvd/pkg/ops"
	"kvd/pkg/ops/fault"
)

// newExplainCmd groups what walks etcd's paths with today's numbers.
func newExplainCmd(app *App) *cobra.Command {
	return newGroupCmd("explain", "What would become of a request, check by check", newExplainWriteCmd(app, runExplainWrite))
}

// explainWriteOptions are the flags of kvd explain write.
type explainWriteOptions struct {
	ops.WriteOptions
	client     clientFlags
	size       byteSize
	maxRequest byteSize
	maxSend    byteSize
	quota      byteSize
	lease      string
}

func (o *explainWriteOptions) addFlags(fs *pflag.FlagSet) {
	o.client.addFlags(fs)
	fs.Lookup(config.Key).Usage = "the key to write; beside an argument KEY, the key of the client certificate (PEM file)"
	fs.Lookup(config.User).Usage = "user:password, to log in and explain it for that user; a name alone only says for whom to explain it"
	fs.Var(&o.size, "size", "size of the value, for example 4096 or 1MiB (required)")
	fs.StringVar(&o.Member, "member", "", "the member that the client talks to: name, ID or endpoint (default: every voter is judged)")
	fs.StringVar(&o.AsUser, "as-user", "", "explain it for this user, whose roles whoever logs in must be able to read")
	fs.StringVar(&o.Token, "token", "", "explain it for a client with this token; whose it is only --as-user tells")
	fs.StringVar(&o.lease, "lease", "", "the put is on this lease (ID as kvd lease list prints it)")
	fs.BoolVar(&o.RequireLeader, "require-leader", false, "the client asks to be refused at once where there is no leader (clientv3.WithRequireLeader)")
	fs.Var(&o.maxRequest, "max-request-bytes", "the servers' own --max-request-bytes, which no request tells (default etcd's, 1.5MiB)")
	fs.Var(&o.maxSend, "max-call-send-msg-size", "what the client sends at most: MaxCallSendMsgSize of etcd's Go client (default its own, 2MiB); other clients have no such limit")
	fs.Var(&o.quota, "quota", "--quota-backend-bytes of members that tell it neither by status nor by metrics")
	fs.StringArrayVar(&o.MetricsURLs, "metrics-url", nil, "`NAME=URL` of a member that serves its metrics elsewhere than at its client URL")
}

func newExplainWriteCmd(app *App, run func(context.Context, *App, explainWriteOptions) error) *cobra.Command {
	var o explainWriteOptions
	cmd := &cobra.Command{
		Use:   "write [KEY] --size SIZE",
		Short: "Where a put would stop, by each check of etcd's write path; writes nothing",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.read(cmd.Flags(), args, app.Getenv); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Walks the checks that etcd 3.7.3 makes of a put, in its own order, with the
numbers of the member that the client would talk to, and says which of them
would end it and in which words the client is told. Some of what it shows: the
quota is looked at first, by the member's own file, before anybody asks who is
writing; without permission, the put is written to every member's log all the
same; with the apply side 5000 entries behind, nothing is taken.

Without --member every voter is judged, for a client may meet any, and the walk
shown is that of the one where it goes worst. All steps are judged, also those
behind the first that stops the write. Nothing is written to the key space.`,
		Cost: `One Status and one /metrics per member; two serializable reads of the key, by count only, from each member that
  is judged. With authentication on, users and roles are read by raft proposals, since etcd has no other way: one for
  the user and one per role, only if nothing stops the write before. Logging in with a password is a proposal too.
  With --token and without a user the status is asked for a second time, with the token.`,
		Example: `
  kvd explain write /registry/pods/default/web --size 4096
  kvd explain write --key /registry/configmaps/a/b --size 1MiB --member m2
  kvd explain write k --size 2MiB --max-request-bytes 10MiB --max-call-send-msg-size 10MiB
  kvd explain write k --size 1KiB --user root:secret --as-user alice
  kvd explain write k --size 1KiB -o json | jq '.steps[] | select(.state != "passes")'`,
		Exits: []int{3, 4, 8, 9},
	}.apply(cmd)
}

// read makes sense of --key and --user, which etcdctl has given a meaning of
// their own: the key to write is the argument, or --key where there is none; and
// a user without a password can't be logged in as.
func (o *explainWriteOptions) read(fs *pflag.FlagSet, args []string, getenv func(string) string) error {
	usage := func(msg, hint string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "explain write", Msg: msg, Hint: hint}
	}
	key := fs.Lookup(config.Key)
	switch {
	case len(args) == 1:
		o.WriteRequest.Key = args[0]
	case !key.Changed:
		return usage("which key?", "kvd explain write KEY --size SIZE")
	case fs.Changed(config.Cert):
		return usage("--key beside --cert is the certificate's", "name the key to write as the argument: kvd explain write KEY --size SIZE --cert … --key …")
	default:
		o.WriteRequest.Key, o.client.except = key.Value.String(), append(o.client.except, config.Key)
	}
	for _, name := range []string{"as-user", "token", "lease", "member"} {
		if fs.Changed(name) && fs.Lookup(name).Value.String() == "" {
			return usage("--"+name+" is empty", "leave it out, or give a value")
		}
	}
	if user := fs.Lookup(config.User); user.Changed && o.AsUser == "" && !strings.Contains(user.Value.String(), ":") &&
		!fs.Changed(config.Password) && !fs.Changed(config.PasswordFile) && getenv("KVD_PASSWORD") == "" {
		o.AsUser, o.client.except = user.Value.String(), append(o.client.except, config.User)
	}
	if !fs.Changed("size") {
		return usage("how large a value?", "give --size, for example --size 4096")
	}
	if o.lease != "" {
		id, _, err := ops.ParseLeaseID(o.lease)
		if bad := (*fault.Error)(nil); errors.As(err, &bad) {
			return bad.On("explain write", "--lease")
		}
		o.Lease = id
	}
	for name, size := range map[string]byteSize{"max-request-bytes": o.maxRequest, "max-call-send-msg-size": o.maxSend, "quota": o.quota} {
		if fs.Changed(name) && size == 0 {
			return usage("--"+name+" 0 leaves no room for anything", "leave it out for the default")
		}
	}
	o.Value, o.MaxRequest, o.MaxSend, o.Quota = int64(o.size), int64(o.maxRequest), int64(o.maxSend), int64(o.quota)
	return nil
}

func runExplainWrite(ctx context.Context, app *App, o explainWriteOptions) error {
	client, err := app.connect(o.client)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing was written
	report, err := ops.ExplainWrite(ctx, client, o.WriteOptions)
	if err != nil {
		return err
	}
	return errors.Join(app.Print(report, writeTable(report)), report.Err())
}
