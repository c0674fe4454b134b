package cli

import (
	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
)

// eventFlags are the knobs of kvd loadgen k8s-events.
type eventFlags struct{ k8s.EventOptions }

func (f *eventFlags) addFlags(fs *pflag.FlagSet) {
	f.EventOptions = k8s.DefaultEventOptions()
	fs.Float64Var(&f.Rate, "rate", f.Rate, "Events a second, of all sources together")
	fs.Float64Var(&f.Repeats, "repeats-share", f.Repeats, "share of them that count up an earlier one")
	fs.IntVar(&f.Sources, "sources", f.Sources, "kubelets and controllers that make them")
	fs.DurationVar(&f.TTL, "ttl", f.TTL, "how long each lives (kube-apiserver --event-ttl)")
	fs.DurationVar(&f.Reuse, "reuse", f.Reuse, "how long a lease is given out again, 5 % of --ttl at most (--lease-reuse-duration-seconds)")
	fs.IntVar(&f.LeaseObjects, "lease-objects", f.LeaseObjects, "Events that one lease is given to")
	fs.BoolVar(&f.LeasePerEvent, "lease-per-event", false, "a lease for each Event, as before leases were given out again")
	fs.IntVar(&f.Readers, "readers", f.Readers, "clients that watch Events: each is a watch of etcd, as no API server caches them")
	fs.IntVar(&f.Nodes, "nodes", f.Nodes, "nodes whose heartbeats go on beside it (0: none)")
}

func (f *eventFlags) scenario(*loadgen.Options, func(string) bool) loadgen.Scenario {
	return &k8s.Events{EventOptions: f.EventOptions}
}

func eventsHelp() scenarioHelp {
	return scenarioHelp{
		use:   "k8s-events",
		short: "What Events cost: writes, leases, and their end",
		help: help{
			Long: `
Plays the sources of Events, each of which lives an hour by a lease. API servers
give a lease out again for a minute, and to a thousand Events; it is never
kept alive. A repeated Event is read first, since Events are not cached, and gets
the newest lease.

WHAT HURTS. Events are most of what a busy cluster writes. With a lease for each
(--lease-per-event) an Event is three entries of the log in place of one: grant,
write, and the end. With leases of too many keys (--lease-objects 1000000)
the end of one deletes them all in one go, and everything waits.

WHAT TO WATCH. "lease_grant events" beside "txn events"; "txn leases", from when the
first leases end (--ttl 1m brings that forward); keys and leases, with kvd lease list.

WHAT TO EXPECT. At 50 Events a second each API server asks for a lease once a minute.
With --lease-per-event there are as many grants as Events, and as many ends an hour
later. Two thirds of that load go with the remedy; all of it, with an etcd
of their own for Events (kube-apiserver --etcd-servers-overrides).
` + loadgenCommon,
			Cost: loadCost + " What it wrote ends by itself after --ttl.",
			Example: `
  kvd loadgen k8s-events --rate 100
  kvd loadgen k8s-events --rate 100 --lease-per-event --ttl 1m --duration 3m
  kvd loadgen k8s-events --rate 500 --lease-objects 1000000 --ttl 20m --duration 30m
  kvd loadgen k8s-events --ab lease-per-event=true lease-per-event=false`,
			Exits: loadExits(),
		},
	}
}
