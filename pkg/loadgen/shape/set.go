package shape

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Kubernetes' limits (endpoints_controller.go, endpointslice's defaults.go).
const (
	MaxEndpoints = 1000 // addresses of one Endpoints object
	MaxSlice     = 100  // endpoints of one EndpointSlice
)

// Set is an Endpoints object or an EndpointSlice: a list that changes by one
// endpoint at a time and is written whole. It is for one goroutine.
type Set struct {
	id      ID
	value   []byte
	touched []span
	stamps  []int // where the time stands as text
	pods    []setMember
}

// setMember is where an endpoint's own is in the value.
type setMember struct{ suffix, uid int }

// layout is where an object has its list.
type layout struct {
	sample  string
	around  path // the message with the list
	list    protowire.Number
	name    path // of an endpoint's pod, from the endpoint on
	uid     path
	address path
}

// Endpoints returns the object of an application with n addresses.
func Endpoints(id ID, n int) *Set {
	return newSet(id, n, layout{sample: "endpoints-100", around: path{2, 2}, list: 1, name: path{2, 3}, uid: path{2, 4}, address: path{1}})
}

// Slice returns an EndpointSlice of an application with n endpoints. The ID's
// object tells it from the application's others; its first pod is so many times
// MaxSlice.
func Slice(id ID, n int) *Set {
	return newSet(id, n, layout{sample: "endpointslice-100", around: path{2}, list: 2, name: path{4, 3}, uid: path{4, 4}, address: path{1}})
}

// SliceName returns the name of an application's EndpointSlice.
func SliceName(app, object int) string { return AppName(app) + "-" + Suffix(object) }

func newSet(id ID, n int, l layout) *Set {
	first := id.Object * MaxSlice
	value := editValue(sample(l.sample), l.around, func(msg []byte) []byte { return l.resized(msg, first, n) })
	t := newTemplate(value)
	if name := t.text(2, 1, 1); name != sampleApp {
		t.withSuffix(name)
	}
	id.fill(value, t.holes)
	s := &Set{id: id, value: value, touched: t.touched}
	for _, at := range t.created {
		setTimestamp(value[at.from:at.to], id.Born)
	}
	const triggerTime = "2026-11-29T10:00:00Z"
	for at := range indexes(value, triggerTime) {
		s.stamps = append(s.stamps, at)
	}
	element := slices.Concat(l.around, path{l.list})
	names, uids := findValue(value, slices.Concat(element, l.name)), findValue(value, slices.Concat(element, l.uid))
	for i := range names {
		s.pods = append(s.pods, setMember{suffix: names[i].to - 5, uid: uids[i].from})
		s.Replace(i, first+i)
	}
	return s
}

// resized returns the message with a list of n endpoints in place of its own.
func (l layout) resized(msg []byte, first, n int) []byte {
	var have [][]byte
	start := len(msg)
	for _, f := range fieldsOf(msg) {
		if f.num == l.list {
			start = min(start, f.start)
			have = append(have, msg[f.payload.from:f.payload.to])
		}
	}
	var list []byte
	for i := range n {
		e := edit(have[i%len(have)], l.address, func([]byte) []byte { return []byte(podIP(first + i)) })
		list = append(list, messageField(l.list, e)...)
	}
	rest := edit(msg, path{l.list}, func([]byte) []byte { return nil })
	return slices.Concat(rest[:start], list, rest[start:])
}

func podIP(i int) string { return fmt.Sprintf("10.%d.%d.%d", 100+i/60000, i/250%250, i%250+1) }

// Len is how many endpoints there are.
func (s *Set) Len() int { return len(s.pods) }

// Replace has another pod of the application stand at a place.
func (s *Set) Replace(i, pod int) {
	id := ID{App: s.id.App, Object: pod}
	copy(s.value[s.pods[i].suffix:], id.part(suffix))
	copy(s.value[s.pods[i].uid:], id.part(uid))
}

// Value returns the object as updated at a time.
func (s *Set) Value(now time.Time) string {
	for _, at := range s.touched {
		setTimestamp(s.value[at.from:at.to], now)
	}
	for _, at := range s.stamps {
		copy(s.value[at:], now.UTC().Format(time.RFC3339))
	}
	return string(s.value)
}
