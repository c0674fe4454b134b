package keyspace

// keyTable has an entry for each key, by a 64-bit hash of it: of a million keys two
// are taken for one with a probability of 3 in 10^8. It is in segments that grow
// one by one, so that there is never a second copy of the whole.
type keyTable struct {
	max, used int
	segments  [256]keySegment
}

// keySegment is a table with open addressing. An entry with a count of 0 is free.
type keySegment struct {
	entries []keyEntry
	used    int
}

// keyEntry is the latest record of a key.
type keyEntry struct {
	hash  uint64
	at    int64  // where in the file its value begins; the complement of that for a tombstone
	size  uint32 // bytes, see dbfile.Record.Size
	count uint32 // records of the key
	group uint32 // the index of its group
}

// keyEntryBytes is what an entry takes with the room that is kept free.
const keyEntryBytes = 32 * 2

func (e *keyEntry) tombstone() bool { return e.at < 0 }

// find returns the entry of a hash, nil for none.
func (t *keyTable) find(hash uint64) *keyEntry {
	s := &t.segments[hash>>56]
	if len(s.entries) == 0 {
		return nil
	}
	if e := s.slot(hash); e.count > 0 {
		return e
	}
	return nil
}

// place finds or makes the entry of a hash. A new one has a count of 0. It is nil
// where there are as many as there may be.
func (t *keyTable) place(hash uint64) *keyEntry {
	s := &t.segments[hash>>56]
	if s.used >= len(s.entries)/8*5 { // above that a key that is not there is looked for too long
		s.grow()
	}
	e := s.slot(hash)
	if e.count > 0 {
		return e
	}
	if t.used >= t.max {
		return nil
	}
	t.used++
	s.used++
	e.hash = hash
	return e
}

// slot finds a hash's entry, or the free one where it belongs.
func (s *keySegment) slot(hash uint64) *keyEntry {
	i := int((hash >> 24 & (1<<32 - 1)) * uint64(len(s.entries)) >> 32) //nolint:gosec // below the length
	for s.entries[i].count != 0 && s.entries[i].hash != hash {
		if i++; i == len(s.entries) {
			i = 0
		}
	}
	return &s.entries[i]
}

func (s *keySegment) grow() {
	old := s.entries
	s.entries = make([]keyEntry, max(16, 2*len(old)))
	for _, e := range old {
		if e.count > 0 {
			*s.slot(e.hash) = e
		}
	}
}

// each calls fn for every entry.
func (t *keyTable) each(fn func(*keyEntry)) {
	for i := range t.segments {
		for j := range t.segments[i].entries {
			if e := &t.segments[i].entries[j]; e.count > 0 {
				fn(e)
			}
		}
	}
}
