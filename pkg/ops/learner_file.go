package ops

import (
	"fmt"
	"strings"

	"kvd/pkg/ops/cluster"
)

// bootstrapDefrag: the flag that has a member defragment its file when it starts,
// under its name from 3.6 on, and under the one it had before (embed/config.go,
// BootstrapDefragThresholdMegabytes). etcd 3.4 has neither.
func bootstrapDefrag() (named, experimental since) {
	return since{{3, 6, 0}}, since{{3, 5, 0}}
}

// causeLearnerFile is the cause of a refusal: the file of a learner is above its quota.
const causeLearnerFile = "learner_file"

// learnerShrink says what makes the file of a learner smaller. A learner refuses
// the request for a defragmentation, like all but its status, serializable reads
// and snapshots (isRPCSupportedForLearner in etcdserver/api/v3rpc/util.go), and
// yet its file counts: where a write does not fit there, it raises NOSPACE for all.
func learnerShrink(m cluster.Member) string {
	named, experimental := bootstrapDefrag()
	restart := "stop it, `etcdctl defrag --data-dir DIR`, and start it"
	switch {
	case named.has(m.Status.Version):
		restart = "restart it with --bootstrap-defrag-threshold-megabytes=1"
	case experimental.has(m.Status.Version):
		restart = "restart it with --experimental-bootstrap-defrag-threshold-megabytes=1"
	}
	who := nameOrID(m)
	return fmt.Sprintf("`kvd member promote %s` makes it a voter, which can be defragmented; or %s; or, if it is not needed, `kvd member remove %s`", who, restart, who)
}

// learnersHold splits members that are too full: learners whose file is full of
// free pages, which no request frees, and all others. Share is of the quota.
func learnersHold(full []cluster.Member, share float64) (learners, others []cluster.Member) {
	for _, m := range full {
		if m.Learner && float64(m.Status.DBInUse) < share*float64(m.Status.EffectiveQuota()) {
			learners = append(learners, m)
		} else {
			others = append(others, m)
		}
	}
	return learners, others
}

// learnersText names learners with their sizes.
func learnersText(learners []cluster.Member) string {
	var said []string
	for _, m := range learners {
		said = append(said, fmt.Sprintf("%s: %s of its file of %s are free pages", m.Label(), binary(gainOf(m.Status)), binary(m.Status.DBSize)))
	}
	return strings.Join(said, "; ")
}
