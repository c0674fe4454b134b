package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/local"
)

// scriptTimeout bounds whatever a script's helper command waits for.
const scriptTimeout = 90 * time.Second

// clusterUsage is what `cluster` understands.
const clusterUsage = `usage: cluster start NAME [members=N] [quota=BYTES] [arg=--FLAG=VALUE]...
       cluster stop|kill|pause|resume|restart NAME MEMBER
       cluster reserve NAME
       cluster join NAME MEMBER
start sets $EP (all endpoints), $EP1.. and $DB1.. (each member's endpoint and
backend file), and the same as $NAME_EP, $NAME_EP1, $NAME_DB1
reserve chooses the URLs of one member more: $EP4 and $PEER4 of m4; join starts
it with an empty data dir, and an old member in its own place likewise`

// clusterKey is where a script keeps its clusters, by name.
type clusterKey struct{}

// cmdCluster starts throwaway clusters of real kvd processes and hurts them.
// They end with the script.
func cmdCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("%s", clusterUsage)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	verb, name := args[0], args[1]
	if verb == "start" {
		startCluster(ctx, ts, name, args[2:])
		return
	}
	if verb == "reserve" {
		reserveMember(ts, clusterOf(ts, name))
		return
	}
	if len(args) != 3 {
		ts.Fatalf("%s", clusterUsage)
	}
	c := clusterOf(ts, name)
	i := memberOf(ts, c, args[2])
	switch verb {
	case "stop":
		ts.Check(c.StopMember(ctx, i))
	case "kill":
		c.Kill(i)
	case "pause":
		ts.Check(c.Pause(i))
	case "resume":
		ts.Check(c.Resume(i))
	case "restart":
		ts.Check(c.Restart(ctx, i))
	case "join":
		c.Kill(i)
		ts.Check(os.RemoveAll(c.DataDir(i)))
		ts.Check(c.StartMember(ctx, i, "--initial-cluster-state=existing"))
	default:
		ts.Fatalf("%s", clusterUsage)
	}
}

func startCluster(ctx context.Context, ts *testscript.TestScript, name string, args []string) {
	kvd, err := kvdPath(ts)
	ts.Check(err)
	o := local.Options{Dir: ts.MkAbs("cluster-" + name), Command: local.Command{Path: kvd, Args: []string{"serve"}}}
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "members":
			o.Members, err = strconv.Atoi(value)
		case "quota":
			o.QuotaBytes, err = strconv.ParseInt(value, 10, 64)
		case "arg":
			o.Args = append(o.Args, value)
		default:
			err = fmt.Errorf("unknown %q\n%s", a, clusterUsage)
		}
		ts.Check(err)
	}
	c, err := local.Start(ctx, o)
	ts.Check(err)
	ts.Defer(func() {
		if err := c.Close(); err != nil {
			ts.Logf("closing cluster %s: %v", name, err)
		}
	})
	clustersOf(ts)[name] = c
	for _, prefix := range []string{"", name + "_"} {
		ts.Setenv(prefix+"EP", strings.Join(c.Endpoints(), ","))
		for i := range c.Len() {
			ts.Setenv(fmt.Sprintf("%sEP%d", prefix, i+1), c.Endpoint(i))
			ts.Setenv(fmt.Sprintf("%sPEER%d", prefix, i+1), c.PeerURL(i))
			ts.Setenv(fmt.Sprintf("%sDB%d", prefix, i+1), c.DBPath(i))
		}
	}
}

// reserveMember chooses the URLs of one member more.
func reserveMember(ts *testscript.TestScript, c *local.Cluster) {
	i, err := c.Reserve()
	ts.Check(err)
	ts.Setenv(fmt.Sprintf("EP%d", i+1), c.Endpoint(i))
	ts.Setenv(fmt.Sprintf("PEER%d", i+1), c.PeerURL(i))
}

// kvdPath finds this test binary under the name kvd, as scripts do.
func kvdPath(ts *testscript.TestScript) (string, error) {
	for _, dir := range strings.Split(ts.Getenv("PATH"), ":") {
		if path, err := exec.LookPath(dir + "/kvd"); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no kvd in the script's PATH")
}

func clustersOf(ts *testscript.TestScript) map[string]*local.Cluster {
	return ts.Value(clusterKey{}).(map[string]*local.Cluster)
}

func clusterOf(ts *testscript.TestScript, name string) *local.Cluster {
	c := clustersOf(ts)[name]
	if c == nil {
		ts.Fatalf("no cluster %q was started", name)
	}
	return c
}

func memberOf(ts *testscript.TestScript, c *local.Cluster, name string) int {
	for i := range c.Len() {
		if c.Name(i) == name {
			return i
		}
	}
	ts.Fatalf("the cluster has no member %q", name)
	return -1
}

// cmdFill is `fill NAME [count=N] [size=BYTES] [keys=K] [prefix=P] [lease=TTL]`:
// puts values of size bytes under K keys in turn, count of them or, without count,
// until the cluster says NOSPACE; with lease, on one of so many seconds, whose ID
// it leaves in $LEASE.
func cmdFill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: fill NAME [count=N] [size=BYTES] [keys=K] [prefix=P] [lease=TTL]")
	}
	count, size, keys, lease, prefix := 0, 64<<10, 20, 0, "fill/"
	for _, a := range args[1:] {
		key, value, _ := strings.Cut(a, "=")
		var err error
		switch key {
		case "count":
			count, err = strconv.Atoi(value)
		case "size":
			size, err = strconv.Atoi(value)
		case "keys":
			keys, err = strconv.Atoi(value)
		case "lease":
			lease, err = strconv.Atoi(value)
		case "prefix":
			prefix = value
		default:
			err = fmt.Errorf("fill: unknown %q", a)
		}
		ts.Check(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: clusterOf(ts, args[0]).Endpoints(), DialTimeout: 10 * time.Second})
	ts.Check(err)
	defer client.Close() //nolint:errcheck // of no consequence after the puts
	var opts []clientv3.OpOption
	if lease > 0 {
		granted, err := client.Grant(ctx, int64(lease))
		ts.Check(err)
		opts = append(opts, clientv3.WithLease(granted.ID))
		ts.Setenv("LEASE", strconv.FormatInt(int64(granted.ID), 16))
	}
	value := strings.Repeat("v", size)
	for n := 0; count == 0 || n < count; n++ {
		_, err := client.Put(ctx, prefix+strconv.Itoa(n%keys), value, opts...)
		if count == 0 && errors.Is(err, rpctypes.ErrNoSpace) {
			ts.Check(fillRest(ctx, client, prefix+"last", size))
			break
		}
		ts.Check(err)
	}
	ts.Check(sizesSettled(ctx, client))
}

// fillRest takes what is left where a put of size bytes was refused, down to 1 KiB:
// a large value is refused where a small one would still fit, and then the alarm
// could be disarmed for good.
func fillRest(ctx context.Context, client *clientv3.Client, key string, size int) error {
	for size > 1<<10 {
		size = max(size/8, 1<<10)
		if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
			return err
		}
		if err := putUntilFull(ctx, client, key, size); err != nil {
			return err
		}
	}
	return nil
}

// putUntilFull writes one key over and over until a put of that many bytes is refused
// for want of space.
func putUntilFull(ctx context.Context, client *clientv3.Client, key string, size int) error {
	for value := strings.Repeat("v", size); ; {
		_, err := client.Put(ctx, key, value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// sizesSettled waits until every member that answers tells the same sizes twice,
// further apart than the 100 ms after which etcd commits its backend: what a
// member tells of its sizes is as of the last commit.
func sizesSettled(ctx context.Context, client *clientv3.Client) error {
	sizes := make(map[string]int64)
	for same := false; !same; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("sizes after the puts: %w", ctx.Err())
		case <-time.After(150 * time.Millisecond):
		}
		same = true
		for _, endpoint := range client.Endpoints() {
			one, cancel := context.WithTimeout(ctx, 2*time.Second)
			status, err := client.Status(one, endpoint)
			cancel()
			if err == nil && sizes[endpoint] != status.DbSizeInUse {
				sizes[endpoint], same = status.DbSizeInUse, false
			}
		}
	}
	return nil
}
