package ops

import (
	"fmt"
	"strings"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
)

// DeleteSelection says which keys to delete.
type DeleteSelection struct {
	keyspace.Selection
	OlderThan time.Duration // of at least this age, see deletion.old; 0: any
}

// String writes it as it is typed.
func (s DeleteSelection) String() string {
	if s.OlderThan == 0 {
		return s.Selection.String()
	}
	return strings.TrimSpace(s.Selection.String() + " --older-than " + s.OlderThan.String())
}

// check refuses what names no part of the key space, or all of it.
func (s DeleteSelection) check(l keys.Layout) error {
	if s.Prefix == "" && !s.Objects() {
		return &fault.Error{Kind: fault.Usage, Cause: "no_selection", Op: opDelete,
			Msg:  "which keys is not said: the empty prefix is everything, and everything is never deleted",
			Hint: "give --prefix, --resource or --namespace; `kvd quota` and `kvd keys usage` show what takes the space"}
	}
	for _, root := range l.Prefixes {
		if !s.Objects() && strings.HasPrefix(root+"/", s.Prefix) {
			return &fault.Error{Kind: fault.Refused, Cause: "whole_registry", Op: opDelete, Subject: fmt.Sprintf("--prefix %q", s.Prefix),
				Msg:  fmt.Sprintf("everything that Kubernetes stores begins so (%s/)", root),
				Hint: "name what is meant: a longer --prefix, --resource or --namespace; nothing was sent"}
		}
	}
	return s.Check(opDelete)
}
