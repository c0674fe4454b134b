package cluster

import (
	"errors"

	"kvd/pkg/ops/fault"
)

// MayBeGone reports an error as of a member that has ended, or of a host that has. What is
// wrong with an address, a name or a certificate says nothing of that, and a member that
// answers its peers is there.
func MayBeGone(err error) bool {
	switch fault.CauseOf(err) {
	case CauseConnectionRefused, CauseUnreachable, CauseNoAnswer, CauseConnectionLost, CauseDeadline, CauseNotEtcd:
		return true
	}
	return false
}

// IsBusy reports an error as of a member that is where it was looked for and answers nobody:
// while it defragments, or before it serves clients. It takes part in raft all the same.
func IsBusy(err error) bool {
	switch fault.CauseOf(err) {
	case CauseNoAnswer, CauseDeadline, CauseStarting:
		return true
	}
	return false
}

// ofAdvertised adds what helps where nobody wrote the scheme that is wrong, but a member
// says it of itself.
func ofAdvertised(err error) error {
	var e *fault.Error
	if cause := fault.CauseOf(err); (cause == CauseTLSRequired || cause == CauseTLSNotSupported) && errors.As(err, &e) {
		return e.WithHint("the member advertises that URL: give kvd the one that is right with --endpoints, and the member too, with --advertise-client-urls")
	}
	return err
}
