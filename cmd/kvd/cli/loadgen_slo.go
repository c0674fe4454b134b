package cli

import (
	"strings"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/fault"
)

// objectivesOf reads what --slo was given, once or several times: all of it is to be
// kept. One with nothing in it, as of a variable that a script has not set, would have
// every run pass.
func objectivesOf(given []string) ([]result.Objective, error) {
	objectives, err := result.ParseObjectives(strings.Join(given, ","))
	if err == nil && len(given) > 0 && len(objectives) == 0 {
		err = &fault.Error{Kind: fault.Usage, Cause: "slo", Op: "--slo", Msg: "there is no objective in it", Hint: "leave it out, or see `kvd loadgen k8s-heartbeats --help` for an example"}
	}
	return objectives, err
}
