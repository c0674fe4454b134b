package cli

// loadgenCommon is what the help of every scenario ends with.
const loadgenCommon = `
The load is an open loop: each actor has its own schedule, which follows from the
seed, and what is due is due whether etcd has answered or not. Response times run
from that moment; service times, from when a request was sent. Requests that
wait until the run has ended are counted as unfinished. Figures of which the
generator itself has a part (its processors, its lag, turns left out) are called so,
and end with exit 9.

Real kubelets wait for their answer before they count to ten: --arrival kubelet has
them do so. --value-mode encrypted or random writes values of the same sizes that
nothing can compress, which etcd itself does not try; it shows in snapshots and on
file systems. Where one machine can't make the load, several play a part
of it each (--shard 1/3, 2/3, 3/3, with one --start-at and the same seed), and
kvd loadgen report adds up what they wrote with --out.

It writes under --prefix only, and refuses a cluster that is not on this machine
(--target-is-mine), one with Kubernetes' objects in it (--beside-kubernetes), and to
go on at 80 % of the quota (--stop-at-usage). kvd loadgen clean removes what was
written. Ctrl-C ends it with a report.

With --ab it runs two variants of itself in turns (ABBA) on throwaway clusters on
this machine, each on a fresh one, and compares them. Flags that name a cluster are
refused then.`

const loadCost = "What it is told to cost: see WHAT TO EXPECT. Beside the load, a second's look at each member's metrics, and once " +
	"a list of the keys that an earlier run left."

func loadExits() []int { return []int{3, 4, 5, 6, 8, 9} }
