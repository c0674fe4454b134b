package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
)

func TestKindOfJoinedErrorsIsTheOneThatRanksFirst(t *testing.T) {
	// The order is the contract of docs/exit-codes.md: 7, 6, 1, 8, 4, 5, 3, 9, 2.
	ranked := []fault.Kind{fault.Damage, fault.Partial, fault.Internal, fault.Denied, fault.Unavailable,
		fault.Refused, fault.Wanting, fault.Inconclusive, fault.Usage}
	for i, first := range ranked {
		for _, second := range ranked[i:] {
			err := errors.Join(fault.New(second, "x"), nil, fmt.Errorf("wrapped: %w", fault.New(first, "y")))
			if got := fault.KindOf(err); got != first {
				t.Errorf("%s joined with %s: got %s", first, second, got)
			}
		}
	}
}

func TestKindOf(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want fault.Kind
	}{
		{nil, ""},
		{errors.New("plain"), fault.Internal},
		{fmt.Errorf("wrapped: %w", errors.New("plain")), fault.Internal},
		{fmt.Errorf("wrapped: %w", fault.New(fault.Denied, "x")), fault.Denied},
		{&fault.Error{Kind: fault.Partial, Err: fault.New(fault.Damage, "x")}, fault.Partial},
		{errors.Join(errors.New("plain"), fault.New(fault.Usage, "x")), fault.Internal},
	} {
		if got := fault.KindOf(tc.err); got != tc.want {
			t.Errorf("KindOf(%v) = %q, want %q", tc.err, got, tc.want)
		}
	}
}

func TestErrorTellsWhatOnWhatAndWhy(t *testing.T) {
	e := fault.New(fault.Refused, "raft lag 18204 > 5000").On("defrag", "m2 (8e9e05c52164694d)").WithHint("wait, or raise --max-lag")
	if got, want := e.Error(), "defrag m2 (8e9e05c52164694d): refused: raft lag 18204 > 5000"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	wrapped := fmt.Errorf("outer: %w", &fault.Error{Kind: fault.Partial, Cause: "c", Err: e})
	if fault.HintOf(wrapped) != "wait, or raise --max-lag" || fault.CauseOf(wrapped) != "c" {
		t.Errorf("hint %q, cause %q", fault.HintOf(wrapped), fault.CauseOf(wrapped))
	}
}

func TestWhyLeavesOutWhatStandsBesideIt(t *testing.T) {
	e := &fault.Error{Kind: fault.Refused, Op: "defrag", Subject: "m2", Msg: "cannot", Err: fmt.Errorf("get: %w", fault.New(fault.Denied, "no role"))}
	if got, want := fault.Why(e), "cannot: no role"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := fault.Why(errors.New("plain")); got != "plain" {
		t.Errorf("got %q", got)
	}
}

// What one of several errors says is not lost behind the first, which may say less.
func TestJoinedErrorsAreAllLookedAt(t *testing.T) {
	bare := fault.New(fault.Unavailable, "no answer")
	told := fault.New(fault.Unavailable, "no lease").On("renew", "m2").WithHint("log in anew")
	told.Cause = "lease_not_found"
	for _, err := range []error{
		errors.Join(bare, told),
		errors.Join(errors.New("plain"), bare, told),
		&fault.Error{Kind: fault.Partial, Err: errors.Join(bare, fmt.Errorf("wrapped: %w", told))},
		errors.Join(bare, told, bare),
		fmt.Errorf("%w; %w", &fault.Error{Kind: fault.Internal, Err: bare}, told),
	} {
		if fault.HintOf(err) != "log in anew" || fault.CauseOf(err) != "lease_not_found" {
			t.Errorf("%v: hint %q, cause %q", err, fault.HintOf(err), fault.CauseOf(err))
		}
		if why := fault.Why(err); !strings.HasSuffix(why, "no answer; no lease") {
			t.Errorf("%q: not all of why", why)
		}
	}
	if fault.HintOf(nil) != "" || fault.CauseOf(errors.Join(errors.New("plain"), bare)) != "" {
		t.Error("a hint or a cause where nobody gave any")
	}
}
