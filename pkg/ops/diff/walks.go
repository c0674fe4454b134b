package diff

import (
	"context"

	"kvd/pkg/ops/keyspace"
)

// walks are what is compared of both sides, key by key.
type walks struct {
	a, b  walk
	close func()
}

// walks returns a walk over all keys of each side; of two files only over what they do
// not have in common, which is told without sorting all of their keys. A key that
// came and went is on neither side, as is one that they have in common: so not where
// these are looked for.
func (m *merge) walks(ctx context.Context, q keyspace.Query) (walks, error) {
	qa, qb := q, q
	qa.Rev, qb.Rev = m.a.Rev, m.b.Rev
	a, inFile := m.a.Source.(*keyspace.FileSource)
	b, both := m.b.Source.(*keyspace.FileSource)
	if !inFile || !both || m.o.History {
		all := func(s Side, q keyspace.Query) walk {
			return func(ctx context.Context, fn func(*keyspace.Item) error) error { return s.Keys(ctx, q, fn) }
		}
		return walks{all(m.a, qa), all(m.b, qb), func() {}}, nil
	}
	ofA, ofB, err := keyspace.TellApart(ctx, a, b, qa, qb)
	if err != nil {
		return walks{}, err
	}
	return walks{ofA.Keys, ofB.Keys, func() {
		ofA.Close() //nolint:errcheck // a file without a name
		ofB.Close() //nolint:errcheck // a file without a name
	}}, nil
}
