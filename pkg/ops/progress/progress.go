// Package progress is how a library says something while it works. A library
// emits events; what becomes of them (a rewritten terminal line, a log line,
// JSON, nothing) is the caller's business.
package progress

// Event is one thing that happened, or one measure of how far a phase has come.
type Event struct {
	Op      string `json:"op,omitempty"`      // "defrag"
	Subject string `json:"subject,omitempty"` // "m2"
	Phase   string `json:"phase,omitempty"`   // what is going on now: "waiting for the server"
	State   string `json:"state,omitempty"`   // of a plan step that began or ended: "started", "done", "skipped", …
	Done    int64  `json:"done,omitempty"`    // how much of Total is done, in Unit
	Total   int64  `json:"total,omitempty"`   // 0 where the total is not known
	Unit    string `json:"unit,omitempty"`    // "bytes", "revisions", "keys", "seconds"
	Note    string `json:"note,omitempty"`    // a sentence for people
	Warning bool   `json:"warning,omitempty"` // the note is a warning: it is shown whatever the mode
}

// Sink receives events. Implementations must be safe for concurrent use and
// must not block for long: the work waits for them.
type Sink interface{ Event(Event) }

// Func makes a Sink of a function.
type Func func(Event)

// Event calls f.
func (f Func) Event(e Event) { f(e) }

// Discard is the Sink that drops everything.
var Discard Sink = Func(func(Event) {})
