package keyspace

// glide proposes ranges that follow a key, larger and larger ones: the keys that
// begin like it but for the last byte, then but for the last two, and so on; and
// where that would be too many, those whose next byte is one more, two more, four
// more. So a number of keys can be counted off without knowing any of them, and
// without ever having etcd count many more than were wanted: beginnings grow
// shorter by one byte at a time, as one byte can mean a hundred times the keys.
type glide struct {
	cur   string // everything in front of it is counted
	limit string

	base     string
	depth    int  // keys that share so many bytes with base are counted
	siblings bool // trying other values of the last byte of depth
	covered  int  // of those, counted
	step     int  // siblings to try next
}

func newGlide(last, limit string) glide {
	return glide{cur: last + "\x00", limit: limit, base: last, depth: len(last) + 1, step: 1}
}

func (g *glide) done() bool { return g.cur == allEnd || (g.limit != allEnd && g.cur >= g.limit) }

// next returns the end of the range to count, which begins at cur.
func (g *glide) next() string {
	for g.siblings {
		end, ok := bump(g.base, g.depth, g.covered+g.step)
		if ok {
			return smaller(end, g.limit)
		}
		if g.step > 1 {
			g.step = 1
			continue
		}
		g.siblings = false // all are counted
	}
	return smaller(prefixEnd(g.base[:g.depth-1]), g.limit)
}

// accept says that the range was counted.
func (g *glide) accept(end string) {
	g.cur = end
	if !g.siblings {
		g.depth, g.covered, g.step = max(g.depth-1, 1), 0, 1
		return
	}
	g.covered, g.step = g.covered+g.step, 2*g.step
}

// narrow says that the range holds too many keys. It is false where no smaller
// one can be proposed; then enter one that begins at a key.
func (g *glide) narrow() bool {
	switch {
	case !g.siblings && g.depth <= len(g.base):
		g.siblings, g.covered, g.step = true, 0, 1
	case g.siblings && g.step > 1:
		g.step = 1
	default:
		return false
	}
	return true
}

// enter begins anew behind a key, the first of the range that held too many,
// which is thereby counted.
func (g *glide) enter(key string) { *g = newGlide(key, g.limit) }

// bump cuts a key behind depth bytes and counts the last of them up by n. It is
// false where that byte cannot go so far.
func bump(key string, depth, n int) (string, bool) {
	if depth < 1 || int(key[depth-1])+n > 0xff {
		return "", false
	}
	b := []byte(key[:depth])
	b[depth-1] += byte(n)
	return string(b), true
}
