package cli

import (
	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
)

// listFlags are the knobs of kvd loadgen k8s-list.
type listFlags struct{ k8s.ListOptions }

func (f *listFlags) addFlags(fs *pflag.FlagSet) {
	f.ListOptions = k8s.DefaultListOptions()
	fs.IntVar(&f.Objects, "objects", f.Objects, "pods that there are, of 3.8 kB each")
	fs.IntVar(&f.Namespaces, "namespaces", f.Namespaces, "namespaces that they are spread over")
	fs.IntVar(&f.Clients, "clients", f.Clients, "who list all of them")
	fs.DurationVar(&f.Period, "period", f.Period, "from one list of a client to its next; up to 10 % are added")
	fs.Int64Var(&f.PageSize, "page-size", f.PageSize, "objects of an answer, as kubectl's 500 or an API server's 10000 (0: all in one)")
	fs.BoolVar(&f.Stream, "stream", false, "read each answer as a RangeStream, as API servers since 1.37 do (etcd 3.7)")
	fs.BoolVar(&f.Serializable, "serializable", false, "read each member's own state, without asking the leader whether it is the newest")
	fs.BoolVar(&f.FromCache, "from-cache", false, "read the API server's cache: etcd is asked for its revision, and for word of the watch's progress")
	fs.Float64Var(&f.ClientQPS, "client-qps", 0, "requests of one client in a second at most (0: no limit)")
	fs.IntVar(&f.Nodes, "nodes", f.Nodes, "nodes whose heartbeats go on beside it (0: none)")
}

func (f *listFlags) scenario(*loadgen.Options, func(string) bool) loadgen.Scenario {
	return &k8s.List{ListOptions: f.ListOptions}
}

func listHelp() scenarioHelp {
	return scenarioHelp{
		use:   "k8s-list",
		short: "What a full List costs: whole, in pages, streamed, or from a cache",
		help: help{
			Long: `
Plays clients that read all pods, again and again, beside the heartbeats of nodes:
in one answer or in pages (--page-size, each at the first one's revision, as the API
server reads them), sent in one piece or as a stream (--stream), or out of the API
server's cache (--from-cache), which costs etcd a request for its revision and, where the cache
has not got there yet, word of its watch's progress, ten times a second at most.

WHAT HURTS. etcd builds an answer in memory, whole, before it sends it, for each
client at a time; and while it reads, everything else waits for processors and locks.
Pages need little memory, but each counts all keys that are left: small pages of
many objects cost processor time.

WHAT TO WATCH. Memory of the servers; "list pods", which is the whole list, beside
"range pods", which is one request; "txn leases", which is what must not suffer;
"client_sent_bytes"; relists, where a list's revision was compacted away between two
pages and the list begun anew.

WHAT TO EXPECT. Peaks of memory that grow with --clients times the size of all
pods unpaged, and not with --page-size 500 or --stream. With 10,000 pods and five
clients a member took ` + measuredLoadListMemoryWholeToPagesOf500 + ` times as much for whole answers as for pages of 500, and
` + measuredLoadListMemoryWholeToStream + ` times as much as for streams (measured, group load of make bench; its
database, which is in memory too, counts on either side). With --from-cache lists cost
some hundred bytes. --serializable spares the leader a question, not the
member its work.
` + loadgenCommon,
			Cost: loadCost,
			Example: `
  kvd loadgen k8s-list --objects 20000
  kvd loadgen k8s-list --objects 20000 --page-size 500 --slo 'txn leases:p99<100ms'
  kvd loadgen k8s-list --objects 20000 --from-cache
  kvd loadgen k8s-list --ab page-size=0 stream=true --repeats 5`,
			Exits: loadExits(),
		},
	}
}
