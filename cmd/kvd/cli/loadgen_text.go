package cli

// loadgenCommon is what the help of every scenario ends with.
const loadgenCommon = `
The load is an open loop: each actor has its own schedule, which follows from the
seed, and what is due is due whether etcd has answered or not. Response times run
from that moment; service times, from when a request was sent. Requests that
wait until the run has ended are counted as unfinished. Figures of which the
generator itself has a part (its processors, its lag, turns left out) are called so,
and end with exit 9.

It writes under --prefix only, and refuses a cluster that is not on this machine
(--target-is-mine), one with Kubernetes' objects in it (--beside-kubernetes), and to
go on at 80 % of the quota (--stop-at-usage). kvd loadgen clean removes what was
written. Ctrl-C ends it with a report.

With --ab it runs two variants of itself in turns (ABBA) on throwaway clusters on
this machine, each on a fresh one, and compares them.`

const loadCost = "What it is told to cost: see WHAT TO EXPECT. Beside the load, a second's look at each member's metrics, and once " +
	"a list of the keys that an earlier run left."

func loadExits() []int { return []int{3, 4, 5, 6, 8, 9} }
