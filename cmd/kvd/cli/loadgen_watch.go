package cli

import (
	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
)

// watchFlags are the knobs of kvd loadgen k8s-watch.
type watchFlags struct {
	k8s.WatchOptions
	slowRate  byteSize
	bookmarks onOff
}

func (f *watchFlags) addFlags(fs *pflag.FlagSet) {
	f.WatchOptions = k8s.DefaultWatchOptions()
	f.slowRate = byteSize(f.SlowRate)
	fs.IntVar(&f.Informers, "informers", f.Informers, "who follow the pods")
	fs.IntVar(&f.Slow, "slow", f.Slow, "of them, how many read slowly")
	fs.Var(&f.slowRate, "slow-rate", "what those read in a second")
	fs.IntVar(&f.Quiet, "quiet", f.Quiet, "more informers, in a namespace where nothing happens")
	fs.StringVar(&f.Streams, "streams", f.Streams, "own: each informer has a stream and a connection; shared: those of an API server have one stream")
	fs.BoolVar(&f.PrevKV, "prev-kv", f.PrevKV, "events bring the value that they replaced, as API servers want it")
	f.bookmarks = onOff(f.Bookmarks)
	fs.Var(&f.bookmarks, "bookmarks", "word of progress where nothing happens, so that who comes back need not begin anew")
	fs.IntVar(&f.Shards, "shards", f.Shards, "namespaces; each informer follows one of them")
	fs.DurationVar(&f.Reconnect, "reconnect", 0, "how often each informer comes back where it was (0: never)")
	fs.IntVar(&f.Objects, "objects", f.Objects, "pods that there are, of 3.8 kB each")
	fs.Float64Var(&f.Rate, "rate", f.Rate, "updates of them in a second")
	fs.IntVar(&f.Nodes, "nodes", f.Nodes, "nodes whose heartbeats go on beside it (0: none)")
}

func (f *watchFlags) scenario(*loadgen.Options, func(string) bool) loadgen.Scenario {
	f.SlowRate, f.Bookmarks = int64(f.slowRate), bool(f.bookmarks)
	return &k8s.Watch{WatchOptions: f.WatchOptions}
}

func watchHelp() scenarioHelp {
	return scenarioHelp{
		use:   "k8s-watch",
		short: "What informers cost, and what slow ones do to the others",
		help: help{
			Long: `
Plays informers that follow pods which change all the time, and checks what they are
told: every version of every pod, once, in order. Streams are read by hand, not
by etcd's client, which takes in all that comes however slow its reader is.

WHAT HURTS. Each event goes to each informer, with the old value too (--prev-kv).
For one that does not read, a member keeps what it could not send, and
reads it from its db again later: memory, and time that others wait. On a shared
stream they wait for the slow one itself.

WHAT TO WATCH. "watch_event pods": how long after the write was answered its event
was there, of fast informers and of slow ones apart. Events that were due and had not
come ten seconds after the last write are its "unfinished", with the time they had
taken until then; percentiles of --slo are of both. missing_events,
duplicate_events and unordered_events must stay 0. watches_compacted counts those
who were away so long that they had to begin anew. Memory of the servers, and
client_sent_bytes.

WHAT TO EXPECT. Bytes grow with informers, and double with --prev-kv. With --shards 10
each informer is sent a tenth. With --slow 1 --streams shared those on its stream are
as late as it is; with --streams own nobody is. Informers of a quiet namespace
(--quiet) that come back (--reconnect) after a compaction begin anew, unless word of
progress had come (kvd serve --watch-progress-notify-interval).
` + loadgenCommon,
			Cost: loadCost + " Members keep what slow informers don't take.",
			Example: `
  kvd loadgen k8s-watch --informers 20
  kvd loadgen k8s-watch --informers 20 --slow 2 --slow-rate 100KiB --ab streams=shared streams=own
  kvd loadgen k8s-watch --informers 30 --ab shards=1 shards=10
  kvd loadgen k8s-watch --quiet 10 --reconnect 20s --compaction 10s --bookmarks off`,
			Exits: loadExits(),
		},
	}
}
