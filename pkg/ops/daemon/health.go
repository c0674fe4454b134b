package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
)

// beatMost is how long the loop may be silent while no run is going.
const beatMost = time.Minute

// health is what /healthz tells: whether this process works. A cluster that does
// not answer is no fault of it, and restarting kvd would not help.
type health struct {
	mu   sync.Mutex
	last time.Time // sign of life
	s    healthBody
}

// healthBody is the JSON of /healthz.
type healthBody struct {
	OK          bool       `json:"ok"`
	Op          string     `json:"op"`
	Running     bool       `json:"running"`
	Leader      bool       `json:"leader"`
	NextRun     *time.Time `json:"next_run,omitempty"`
	LastRun     *time.Time `json:"last_run,omitempty"` // when it ended
	LastOutcome string     `json:"last_outcome,omitempty"`
	LastError   string     `json:"last_error,omitempty"`
	LastSkip    string     `json:"last_skip,omitempty"` // why the latest tick brought no run
}

func newHealth(o Options) *health { return &health{last: time.Now(), s: healthBody{Op: o.Op}} }

func (h *health) set(f func(*healthBody)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = time.Now()
	f(&h.s)
}

func (h *health) beat()                { h.set(func(*healthBody) {}) }
func (h *health) setLeads(yes bool)    { h.set(func(s *healthBody) { s.Leader = yes }) }
func (h *health) setNext(at time.Time) { h.set(func(s *healthBody) { s.NextRun = &at }) }
func (h *health) running(yes bool)     { h.set(func(s *healthBody) { s.Running = yes }) }

func (h *health) skipped(reason string, err error) {
	h.set(func(s *healthBody) { s.LastSkip = reason + ": " + oneLine(err) })
}

func (h *health) ran(r plan.Report, err error) {
	now := time.Now().UTC()
	h.set(func(s *healthBody) {
		s.LastRun, s.LastOutcome, s.LastError, s.LastSkip = &now, string(r.Outcome), "", ""
		if err != nil {
			s.LastError = oneLine(err)
		}
	})
}

func (h *health) now() healthBody {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.s
	s.OK = s.Running || time.Since(h.last) < beatMost
	return s
}

// ServeHTTP answers 200 or 503.
func (h *health) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s := h.now()
	w.Header().Set("Content-Type", "application/json")
	if !s.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(s)
}

// listen serves /metrics and /healthz until the returned function is called.
func (d *daemon) listen(ctx context.Context) (func(), error) {
	if d.o.Listen == "" {
		return func() {}, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", d.o.Listen)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Usage, Cause: "listen", Subject: "--metrics-listen " + d.o.Listen, Err: err,
			Hint: "give a host and a free port of this machine, for example 127.0.0.1:9389"}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.m.registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /healthz", d.health)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	d.o.Log.Info("serving metrics and health", d.fields("address", l.Addr().String())...)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.o.Log.Error("serving metrics and health ended", failure(err)...)
		}
	}()
	return func() { _ = srv.Close(); <-ended }, nil
}
