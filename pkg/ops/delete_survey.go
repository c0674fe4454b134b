package ops

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/envelope"
	"kvd/pkg/ops/progress"
)

// sampled is how many values of a group are read to tell its bytes, where values
// need not be read anyway.
const sampled = 60

// DeleteGroup is all keys of one Kubernetes resource, or all others, that would
// be deleted.
type DeleteGroup struct {
	Prefix    string `json:"prefix,omitempty"`        // what all of them begin with
	RawPrefix []byte `json:"prefix_base64,omitempty"` // instead, where that is not UTF-8
	Resource  string `json:"resource,omitempty"`
	Keys      int64  `json:"keys"`
	Bytes     int64  `json:"live_bytes"`
	BytesErr  int64  `json:"live_bytes_error"`

	prefix       string
	sum, squares float64  // of the sizes that are known
	known        int64    // how many are
	sample       []string // keys whose values are still to be read
}

// survey is what a walk over the selected keys has found.
type survey struct {
	rev       int64
	groups    map[string]*DeleteGroup
	protected map[string]int64
	objects   int64 // of Kubernetes
	younger   int64
	ageless   int64

	namespaces map[string]int64 // keys of objects in each
	ends       continued
}

// resurveys is how often a survey is begun again because the history was compacted
// below it, before it is given up.
const resurveys = 5

// survey looks at the selected keys, and again where roots are found among them, or
// where a compaction overtook it.
func (d *deletion) survey(ctx context.Context) (s *survey, err error) {
	for again := 0; ; {
		d.layout, d.protect = d.roots.layout(), newProtector(d.roots.known)
		s, err = d.walk(ctx)
		switch {
		case fault.CauseOf(err) == cluster.CauseCompacted && again < resurveys:
			again++
			continue
		case fault.CauseOf(err) == cluster.CauseCompacted:
			return nil, &fault.Error{Kind: fault.Refused, Cause: cluster.CauseCompacted, Op: opDelete, Subject: d.opts.Select.String(), Err: err,
				Msg: fmt.Sprintf("the history was compacted below each of %d looks at the keys", again+1), Hint: "select less at a time, or compact less often meanwhile"}
		case err != nil:
			return nil, err
		}
		if more, err := d.ask(ctx); err != nil || !more {
			return s, err
		}
	}
}

// walk goes over the selected keys at the latest revision, with their values where
// their age is to be read from them.
func (d *deletion) walk(ctx context.Context) (*survey, error) {
	bounds, err := d.source.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	s := &survey{rev: bounds.Head, groups: map[string]*DeleteGroup{}, protected: map[string]int64{}, namespaces: map[string]int64{}}
	rnd := rand.New(rand.NewPCG(uint64(s.rev), sampled)) //nolint:gosec // chooses a sample
	var seen int64
	for _, r := range d.selector.Ranges() {
		err := d.source.Keys(ctx, keyspace.Query{From: r.From, End: r.End, Rev: s.rev, KeysOnly: d.namesOnly()}, func(i *keyspace.Item) error {
			if seen++; seen%keysReported == 0 {
				d.sink.Event(progress.Event{Op: opDelete, Phase: "looking at the keys", Done: seen, Unit: "keys"})
			}
			if d.selector.Has(string(i.Key)) {
				s.see(d, i, rnd)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if err := d.everyKey(ctx, s); err != nil {
		return nil, err
	}
	return s, d.measure(ctx, s)
}

// see takes in a key that is selected, but for its age.
func (s *survey) see(d *deletion, i *keyspace.Item, rnd *rand.Rand) {
	switch d.old(i) {
	case ageYoung:
		s.younger++
		return
	case ageUnknown:
		s.ageless++
		return
	}
	key := string(i.Key)
	if !d.namesOnly() {
		s.stray(d, i)
	}
	for _, name := range d.protect.of(key) {
		s.protected[name]++
	}
	d.roots.look(key, d.protect)
	if k, ok := d.layout.Parse(key); ok && k.Namespace != "" {
		s.namespaces[k.Namespace]++
	}
	s.ends.see(strings.TrimPrefix(key, d.opts.Select.Prefix))
	s.group(d, key).add(key, i.Size, d.namesOnly(), rnd)
}

// stray protects objects of Kubernetes that lie below no root that is known or was
// found, as of a cluster whose namespaces are gone: what they are cannot be told by
// their keys. Only what no other program writes is taken for one.
func (s *survey) stray(d *deletion, i *keyspace.Item) {
	if _, object := d.layout.Parse(string(i.Key)); object {
		return
	}
	if head, _ := envelope.Read(i.Value); head.Form == envelope.Protobuf || head.Form == envelope.Encrypted {
		s.protected[protectStray] = 0 // only a sample of the values is read
	}
}

const keysReported = 5000

// namesOnly reports that keys are selected without a look at their values.
func (d *deletion) namesOnly() bool { return d.opts.Select.OlderThan == 0 }

// groupPrefix names the group of a key: that of its resource, or the one of all keys
// that are no objects of Kubernetes.
func (d *deletion) groupPrefix(key string) (prefix string, object bool) {
	if prefix, object = d.layout.ResourcePrefix(key); !object {
		prefix = d.opts.Select.Prefix
	}
	return prefix, object
}

func (s *survey) group(d *deletion, key string) *DeleteGroup {
	prefix, object := d.groupPrefix(key)
	if object {
		s.objects++
	}
	g := s.groups[prefix]
	if g == nil {
		g = &DeleteGroup{prefix: prefix}
		if utf8.ValidString(prefix) {
			g.Prefix = prefix
		} else {
			g.RawPrefix = []byte(prefix)
		}
		if k, _, ok := d.layout.Split(key); ok {
			g.Resource = k.GroupResource()
		}
		s.groups[prefix] = g
	}
	return g
}

// name is what a group is called in a plan.
func (g *DeleteGroup) name() string {
	if g.Resource != "" {
		return g.Resource
	}
	return fmt.Sprintf("%q", g.prefix)
}

// add counts a key; where its size is not known it gets its chance to be in the
// sample (reservoir sampling).
func (g *DeleteGroup) add(key string, size int64, unknown bool, rnd *rand.Rand) {
	g.Keys++
	switch {
	case !unknown:
		g.size(size)
	case len(g.sample) < sampled:
		g.sample = append(g.sample, key)
	default:
		if i := rnd.Int64N(g.Keys); i < sampled {
			g.sample[i] = key
		}
	}
}

func (g *DeleteGroup) size(n int64) {
	g.known++
	g.sum += float64(n)
	g.squares += float64(n) * float64(n)
}

// everyKey protects a key space from being emptied by a prefix that all its keys
// happen to have.
func (d *deletion) everyKey(ctx context.Context, s *survey) error {
	quorum, err := d.client.Quorum(ctx)
	if err != nil {
		return err
	}
	all, err := quorum.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if n := s.total().keys; n > 0 && n >= all.Count {
		s.protected[protectAll] = n
	}
	return nil
}

// measure reads the samples and reckons the bytes of each group.
func (d *deletion) measure(ctx context.Context, s *survey) error {
	for _, g := range s.sorted() {
		for _, key := range g.sample {
			q := keyspace.Query{From: key, End: key + "\x00", Rev: s.rev}
			if err := d.source.Keys(ctx, q, func(i *keyspace.Item) error {
				g.size(i.Size)
				s.stray(d, i)
				return nil
			}); err != nil {
				return err
			}
		}
		g.estimate()
	}
	return nil
}

// estimate reckons from the sizes that are known to all, with the 95 % interval of
// a sample without replacement.
func (g *DeleteGroup) estimate() {
	if g.known == 0 {
		return
	}
	n, all := float64(g.known), float64(g.Keys)
	mean := g.sum / n
	g.Bytes = int64(mean * all)
	if g.known == g.Keys || g.known < 2 {
		return
	}
	variance := max(0, (g.squares-n*mean*mean)/(n-1))
	g.BytesErr = int64(1.96 * all * math.Sqrt(variance/n*(1-n/all)))
}

// sorted returns the groups by bytes, the largest first.
func (s *survey) sorted() []*DeleteGroup {
	var out []*DeleteGroup
	for _, g := range s.groups {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *DeleteGroup) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.prefix, b.prefix))
	})
	return out
}

// amount is a number of keys and their bytes.
type amount struct{ keys, bytes, bytesErr int64 }

func (a amount) String() string {
	if a.bytesErr > 0 {
		return fmt.Sprintf("%s, about %s (± %s)", counted(int(a.keys), "key"), binary(a.bytes), binary(a.bytesErr))
	}
	return fmt.Sprintf("%s, %s", counted(int(a.keys), "key"), binary(a.bytes))
}

func (g *DeleteGroup) amount() amount { return amount{g.Keys, g.Bytes, g.BytesErr} }

func (s *survey) total() amount {
	var a amount
	var variance float64
	for _, g := range s.groups {
		a.keys, a.bytes = a.keys+g.Keys, a.bytes+g.Bytes
		variance += float64(g.BytesErr) * float64(g.BytesErr)
	}
	a.bytesErr = int64(math.Sqrt(variance))
	return a
}

func (s *survey) detail(sel DeleteSelection) DeleteDetail {
	t := s.total()
	out := DeleteDetail{Selection: sel.String(), Revision: s.rev, Keys: t.keys, Bytes: t.bytes, BytesErr: t.bytesErr,
		Younger: s.younger, Ageless: s.ageless, Groups: []DeleteGroup{}, Namespaces: s.inNamespaces()}
	for _, g := range s.sorted() {
		out.Groups = append(out.Groups, *g)
	}
	return out
}
