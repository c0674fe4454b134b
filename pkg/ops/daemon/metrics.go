package daemon

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/lead"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/schedule"
)

// instruments are what /metrics serves, on a registry of their own. Every set of
// label values is closed: all of them exist from the start, those of members
// follow the member list. It is safe for concurrent use but for members, which
// only the goroutine of the loop touches.
type instruments struct {
	registry *prometheus.Registry

	next, leader      prometheus.Gauge
	retries           prometheus.Counter
	runs, skipped     *prometheus.CounterVec // by outcome; by reason
	lastRun, lastGood prometheus.Gauge
	lastTook          prometheus.Gauge
	lastOutcome       *prometheus.GaugeVec
	unwell            prometheus.Gauge       // ticks in a row
	steps             *prometheus.CounterVec // by state
	refusals          *prometheus.CounterVec // by guard
	freed             *prometheus.CounterVec // by member
	memberTook        *prometheus.GaugeVec
	memberBytes       *prometheus.GaugeVec

	members map[string]string // label of a step's subject → name
}

// whole is the member label of what concerns the cluster as a whole.
const whole = "cluster"

func outcomes() []string {
	return []string{string(plan.OutcomeNothing), string(plan.OutcomeDone), string(plan.OutcomeFailed), string(plan.OutcomePartial), string(plan.OutcomeInterrupted)}
}

func reasons() []string {
	return []string{string(schedule.Running), string(schedule.Missed), string(schedule.Outside),
		reasonOther, reasonBusy, reasonUnavailable, reasonRefused, reasonDenied, reasonStopped, reasonFailed}
}

func states() []string {
	return []string{string(plan.Done), string(plan.Skipped), string(plan.Failed), string(plan.Interrupted)}
}

// otherGuard stands for the guards that are not in the list.
const otherGuard = "other"

func guards() []string {
	return []string{"voter_missing", cluster.CauseNoLeader, "lag", "quorum", cluster.CauseCorrupt, "defrag_inflight", "snapshot_inflight", "disk_space",
		"recreated_key", "quota_unknown", "no_successor", lead.CauseLost, causeWindow, otherGuard}
}

func newInstruments(o Options) *instruments {
	reg := prometheus.NewRegistry()
	op := prometheus.Labels{"op": o.Op}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "kvd", Subsystem: "schedule", Name: name, Help: help, ConstLabels: op})
		reg.MustRegister(g)
		return g
	}
	gaugeVec := func(name, help, label string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "kvd", Subsystem: "schedule", Name: name, Help: help, ConstLabels: op}, []string{label})
		reg.MustRegister(g)
		return g
	}
	counterVec := func(name, help, label string, values []string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "kvd", Subsystem: "schedule", Name: name, Help: help, ConstLabels: op}, []string{label})
		reg.MustRegister(c)
		for _, v := range values {
			c.WithLabelValues(v)
		}
		return c
	}
	m := &instruments{
		registry:    reg,
		next:        gauge("next_run_timestamp_seconds", "When the next run is due, in seconds since 1970."),
		leader:      gauge("leader", "1 if this process holds the election, as far as it knows."),
		lastRun:     gauge("last_run_timestamp_seconds", "When the last run that had a plan ended. 0: none yet."),
		lastGood:    gauge("last_success_timestamp_seconds", "When the last run ended that did all that was needed, or found nothing to do. 0: none yet."),
		unwell:      gauge("ticks_without_success", "Ticks in a row that brought no run that went well. 0: the last did, or another process is the one to run."),
		lastTook:    gauge("last_run_duration_seconds", "How long the last run took."),
		lastOutcome: gaugeVec("last_run_outcome", "1 for the outcome of the last run.", "outcome"),
		runs:        counterVec("runs_total", "Runs that had a plan, by outcome.", "outcome", outcomes()),
		skipped:     counterVec("skipped_ticks_total", "Ticks that brought no run, by reason.", "reason", reasons()),
		steps:       counterVec("steps_total", "Steps of all runs, by what became of them.", "state", states()),
		refusals:    counterVec("guard_refusals_total", "Runs that a guard stopped, by guard.", "guard", guards()),
		freed:       counterVec("freed_bytes_total", "Bytes given back: of a member's file by defrag, inside the fullest file by compact.", "member", nil),
		memberBytes: gaugeVec("member_freed_bytes", "Bytes given back by the last step that was done.", "member"),
		memberTook:  gaugeVec("member_duration_seconds", "How long the last step took that was done.", "member"),
		members:     map[string]string{},
	}
	m.retries = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "kvd", Subsystem: "schedule", Name: "retries_total",
		Help: "Attempts to reach the cluster that failed and were repeated.", ConstLabels: op})
	info := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "kvd", Name: "build_info", Help: "Always 1.", ConstLabels: prometheus.Labels{"version": o.Version}})
	info.Set(1)
	reg.MustRegister(m.retries, info)
	for _, v := range outcomes() {
		m.lastOutcome.WithLabelValues(v)
	}
	for _, g := range o.Gauges {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "kvd", Subsystem: "schedule", Name: g.Name, Help: g.Help, ConstLabels: op}, g.Value))
	}
	return m
}

// see follows the member list: who has left has no series any more.
func (m *instruments) see(view cluster.View) {
	members := map[string]string{whole: whole}
	for _, mb := range view.Members {
		members[mb.Label()] = name(mb)
	}
	for label, n := range m.members {
		if _, ok := members[label]; ok || slices.Contains(values(members), n) {
			continue
		}
		m.freed.DeleteLabelValues(n)
		m.memberBytes.DeleteLabelValues(n)
		m.memberTook.DeleteLabelValues(n)
	}
	m.members = members
	for _, n := range members {
		m.freed.WithLabelValues(n)
	}
}

func values(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

func (m *instruments) lead(yes bool) {
	if yes {
		m.leader.Set(1)
	} else {
		m.leader.Set(0)
	}
}

// observe takes over what a report says.
func (m *instruments) observe(r plan.Report, err error) {
	now := stamp(time.Now())
	m.lastRun.Set(now)
	m.lastTook.Set(r.TookSeconds)
	if r.Outcome == plan.OutcomeDone || r.Outcome == plan.OutcomeNothing {
		m.lastGood.Set(now)
		m.unwell.Set(0)
	} else if r.Outcome != plan.OutcomeInterrupted {
		m.unwell.Inc()
	}
	m.runs.WithLabelValues(string(r.Outcome)).Inc()
	for _, v := range outcomes() {
		m.lastOutcome.WithLabelValues(v).Set(0)
	}
	m.lastOutcome.WithLabelValues(string(r.Outcome)).Set(1)
	for _, s := range r.Steps {
		m.steps.WithLabelValues(string(s.State)).Inc()
		who, ok := m.members[s.Subject]
		if s.State != plan.Done || !ok || s.BeforeBytes == nil || s.AfterBytes == nil {
			continue
		}
		gained := float64(*s.BeforeBytes - *s.AfterBytes)
		m.freed.WithLabelValues(who).Add(max(0, gained))
		m.memberBytes.WithLabelValues(who).Set(gained)
		m.memberTook.WithLabelValues(who).Set(s.TookSeconds)
	}
	if guard, ok := refusedBy(err); ok {
		m.refused(guard)
	}
}

// idle counts a tick that came to no plan.
func (m *instruments) idle(reason string) {
	m.skipped.WithLabelValues(reason).Inc()
	switch reason {
	case reasonOther:
		m.unwell.Set(0)
	case reasonStopped:
	default:
		m.unwell.Inc()
	}
}

// refused counts a refusal.
func (m *instruments) refused(guard string) {
	if !slices.Contains(guards(), guard) {
		guard = otherGuard
	}
	m.refusals.WithLabelValues(guard).Inc()
}

// refusedBy finds the refusal of a guard in the error of a run, which is of kind
// Partial where steps were done before it.
func refusedBy(err error) (string, bool) {
	var e *fault.Error
	for errors.As(err, &e) {
		if e.Kind == fault.Refused {
			return e.Cause, true
		}
		err = e.Err
	}
	return "", false
}

func stamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
