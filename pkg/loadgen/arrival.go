package loadgen

import "fmt"

// Arrival says what decides when an actor's next turn is due.
type Arrival string

// The arrivals.
const (
	// Open is by the schedule alone.
	Open Arrival = "open"
	// Kubelet has those who wait for their answer in Kubernetes too, and then for
	// their period (Schedule.Sliding), do so here. A slow server is then asked less
	// by each of them, as it would be, and of thousands of them hardly. What is
	// due then depends on the server, so the schedule's hash covers the first
	// turn of each.
	Kubelet Arrival = "kubelet"
)

// String, Set and Type make it a flag's value.
func (a *Arrival) String() string { return string(*a) }

// Type names the kind of flag value.
func (a *Arrival) Type() string { return "arrival" }

// Set accepts one of the arrivals.
func (a *Arrival) Set(s string) error {
	switch v := Arrival(s); v {
	case Open, Kubelet:
		*a = v
		return nil
	}
	return fmt.Errorf("%q is not an arrival: want open or kubelet", s)
}

// Shard is the part of a load that one of several generators plays: of the API
// servers, numbered from 0, those whose number has the remainder Index-1 when
// divided by Of. The generators, of one seed, have together the schedule that one
// alone would have. The zero value is the whole load.
type Shard struct{ Index, Of int }

// String shows it as "2/4", the whole load as nothing.
func (s *Shard) String() string {
	if s.Of == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Of)
}

// Type names the kind of flag value.
func (s *Shard) Type() string { return "k/n" }

// Set reads "2/4", the second of four.
func (s *Shard) Set(text string) error {
	var v Shard
	if n, err := fmt.Sscanf(text+"\n", "%d/%d\n", &v.Index, &v.Of); n != 2 || err != nil || v.Of < 1 || v.Index < 1 || v.Index > v.Of {
		return fmt.Errorf("%q is no part of a load: want k/n, as in 2/4 for the second of four", text)
	}
	*s = v
	return nil
}

// whole reports that nobody else plays a part.
func (s Shard) whole() bool { return s.Of <= 1 }

// has reports whether the part has an API server, of so many.
func (s Shard) has(apiserver, of int) bool {
	return s.whole() || apiserver%of%s.Of == s.Index-1
}

// part returns who of a cast acts in this part of the load.
func (s Shard) part(c Cast, apiservers int) Cast {
	if s.whole() {
		return c
	}
	var out Cast
	for _, a := range c.Actors {
		if s.has(a.APIServer, apiservers) {
			out.Actors = append(out.Actors, a)
		}
	}
	for _, b := range c.Background {
		if s.has(b.APIServer, apiservers) {
			out.Background = append(out.Background, b)
		}
	}
	return out
}
