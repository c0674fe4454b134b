package shape

import (
	"bytes"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

//go:embed samples/*.pb
var sampleFiles embed.FS

// Hash is one over all samples: loads of two versions of kvd with the same one wrote
// objects of the same form.
func Hash() string {
	sum := fnv.New128a()
	files, _ := sampleFiles.ReadDir("samples") // compiled in
	for _, f := range files {
		_, _ = sum.Write([]byte(f.Name() + "\x00"))
		_, _ = sum.Write(sample(strings.TrimSuffix(f.Name(), ".pb")))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// envelope is what Kubernetes' protobuf values begin with; a runtime.Unknown
// follows.
const envelope = "k8s\x00"

// ID tells an object of a template from the others: which application (a
// Deployment and what belongs to it), which object of it, on which node, in which
// namespace, and since when. Numbers count from 0; Serial is what only Events have.
type ID struct {
	App, Object, Node, Namespace int
	Serial                       int64
	Born                         time.Time
}

// Template is an object as Kubernetes stores it, with the places in it that
// differ from object to object. It is safe for concurrent use.
type Template struct {
	value   []byte
	holes   []hole
	created []span // Timestamps
	touched []span
	count   int // where a number of one byte is, 0: nowhere
}

// hole is where something of an object's own stands.
type hole struct {
	at   int
	what part
}

// part is what stands in a hole.
type part int

const (
	appName     part = iota // 15 characters
	nodeName                // 41
	namespace               // 8
	suffix                  // 5
	uid                     // 36
	ownerUID                // 36
	eventSerial             // 16
	parts
)

// What stands in the samples. The UID and the suffix of a name differ from
// sample to sample and are looked up.
const (
	sampleApp   = "payment-service"
	sampleNode  = "ip-10-0-123-45.eu-west-1.compute.internal"
	sampleNS    = "payments"
	sampleEvent = "18a2b3c4d5e6f708"
)

// sample returns a value that kvd brings along.
func sample(name string) []byte {
	b, err := sampleFiles.ReadFile("samples/" + name + ".pb")
	if err != nil {
		panic(err) // it is compiled in, or a typing error
	}
	return b
}

// newTemplate looks for what differs in a value. touched are the paths of the
// Timestamps that each update sets.
func newTemplate(value []byte, touched ...path) *Template {
	t := &Template{value: value}
	t.dig(sampleApp, appName)
	t.dig(sampleNode, nodeName)
	t.dig(t.text(2, 1, 5), uid)
	t.dig(t.text(2, 1, 13, 4), ownerUID)
	t.dig(sampleEvent, eventSerial)
	if t.text(2, 1, 3) == sampleNS {
		t.dig(sampleNS, namespace)
	}
	t.created = t.timestamps(2, 1, 8)
	t.touched = t.timestamps(2, 1, 17, 4)
	for _, p := range touched {
		t.touched = append(t.touched, t.timestamps(p...)...)
	}
	return t
}

// timestamps finds the times that are set: one that isn't has no bytes.
func (t *Template) timestamps(at ...protowire.Number) []span {
	return slices.DeleteFunc(t.find(at...), func(s span) bool { return s.from == s.to })
}

// withSuffix has the last five characters of a name differ from object to object.
func (t *Template) withSuffix(name string) *Template {
	n := len(name) - 5
	for at := range indexes(t.value, name) {
		t.holes = append(t.holes, hole{at + n, suffix})
	}
	return t
}

// dig makes a hole of each place where text stands.
func (t *Template) dig(text string, what part) {
	if text == "" {
		return
	}
	for at := range indexes(t.value, text) {
		t.holes = append(t.holes, hole{at, what})
	}
}

// indexes yields where text begins in b.
func indexes(b []byte, text string) func(func(int) bool) {
	return func(yield func(int) bool) {
		for from := 0; ; {
			i := bytes.Index(b[from:], []byte(text))
			if i < 0 || !yield(from+i) {
				return
			}
			from += i + len(text)
		}
	}
}

// find is find behind the envelope.
func (t *Template) find(at ...protowire.Number) []span { return findValue(t.value, at) }

func findValue(value []byte, at path) []span {
	all := find(value[len(envelope):], at)
	for i := range all {
		all[i].from += len(envelope)
		all[i].to += len(envelope)
	}
	return all
}

// editValue is edit behind the envelope.
func editValue(value []byte, at path, change func([]byte) []byte) []byte {
	return append([]byte(envelope), edit(value[len(envelope):], at, change)...)
}

// text returns the first text at a path.
func (t *Template) text(at ...protowire.Number) string {
	if all := t.find(at...); len(all) > 0 {
		return string(t.value[all[0].from:all[0].to])
	}
	return ""
}

// Value returns the object as updated at a time.
func (t *Template) Value(id ID, now time.Time) string {
	v := bytes.Clone(t.value)
	id.fill(v, t.holes)
	for _, s := range t.created {
		setTimestamp(v[s.from:s.to], id.Born)
	}
	for _, s := range t.touched {
		setTimestamp(v[s.from:s.to], now)
	}
	return string(v)
}

// Counted is Value of an object that counts: the repeats of an Event, the
// generation of a master lease. The count is kept to what fits where it stands.
func (t *Template) Counted(id ID, now time.Time, n int) string {
	v := []byte(t.Value(id, now))
	if t.count > 0 {
		v[t.count] = byte(1 + max(n-1, 0)%127)
	}
	return string(v)
}

// fill puts what is the object's own into its holes.
func (id ID) fill(v []byte, holes []hole) {
	var done [parts]string
	for _, h := range holes {
		if done[h.what] == "" {
			done[h.what] = id.part(h.what)
		}
		copy(v[h.at:], done[h.what])
	}
}

func (id ID) part(p part) string {
	switch p {
	case appName:
		return AppName(id.App)
	case nodeName:
		return NodeName(id.Node)
	case namespace:
		return NamespaceName(id.Namespace)
	case suffix:
		return Suffix(id.Object)
	case ownerUID:
		return UID("owner", id.App, 0)
	case eventSerial:
		return EventSerial(id.Serial)
	default:
		return UID("object", id.App, id.Object)
	}
}

// setTimestamp sets a Timestamp in place: its seconds have five bytes for every
// date of this century, its nanoseconds as many as they had, which for one with
// more than a byte leaves out some fractions of a second.
func setTimestamp(b []byte, at time.Time) {
	seconds := binary.AppendUvarint([]byte{1 << 3}, uint64(max(at.Unix(), 1<<28)))
	copy(b, seconds)
	fraction := b[len(seconds)+1:]
	if len(fraction) < 4 {
		return // to the second
	}
	low, high := 1<<21, 1<<28 // what four bytes hold
	if len(fraction) > 4 {
		low, high = 1<<28, 1e9
	}
	const micro = 1000
	low = (low/micro + 1) * micro
	binary.PutUvarint(fraction, uint64(low+(at.Nanosecond()%(high-low))/micro*micro))
}

// MaxNodes is how many names of nodes there are.
const MaxNodes = 90 * 250 * 9

// NodeName returns the name of a node below MaxNodes, always of the same length.
func NodeName(i int) string {
	return fmt.Sprintf("ip-10-%d-%03d-%02d.eu-west-1.compute.internal", 1+i/22500%9, i/90%250, 10+i%90)
}

// APIServerName returns the name of an API server's identity.
func APIServerName(i int) string { return fmt.Sprintf("apiserver-6j3oqegojli76qwdruuv5v%04d", i) }

// AppName returns the name of an application, its Service and its Deployment.
func AppName(i int) string { return fmt.Sprintf("service-%07d", i) }

// NamespaceName returns the name of a namespace.
func NamespaceName(i int) string { return fmt.Sprintf("ns-%05d", i) }

// Suffix returns the five characters that a generated name ends with, of those
// that Kubernetes uses (k8s.io/apimachinery/pkg/util/rand). There are 14 million.
func Suffix(i int) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	var b [5]byte
	for k := range b {
		b[k] = alphabet[i%len(alphabet)]
		i /= len(alphabet)
	}
	return string(b[:])
}

// PodName returns the name of a pod of an application.
func PodName(app, pod int) string { return AppName(app) + "-67cc84df8d-" + Suffix(pod) }

// EventSerial returns what client-go appends to the name of an Event, 16
// hexadecimal digits: its time in nanoseconds since 1970.
func EventSerial(nanoseconds int64) string { return fmt.Sprintf("%016x", nanoseconds) }

// UID returns a version 4 UUID that follows from its arguments.
func UID(kind string, app, object int) string {
	h := fnv.New128a()
	_, _ = fmt.Fprintf(h, "%s/%d/%d", kind, app, object) // never fails
	b := h.Sum(nil)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
