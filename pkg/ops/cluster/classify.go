package cluster

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kvd/pkg/ops/fault"
)

// Classify turns an error of etcd's client into one for people. It looks at the
// error only; the methods of the clients also probe the endpoint where the error
// does not tell.
func Classify(op, endpoint string, err error) *fault.Error {
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	e := &fault.Error{Kind: fault.Unavailable, Cause: CauseUnknown, Op: op, Subject: endpoint, Err: err}
	switch {
	case errors.Is(err, context.Canceled), status.Code(err) == codes.Canceled:
		e.Kind, e.Cause = fault.Interrupted, CauseCanceled
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		e.Cause = CauseDeadline
	case status.Code(err) == codes.Unavailable:
		e.Cause = CauseConnectionLost
	}
	return e
}
