package wal

// exam collects what is needed of a log in one pass, for the verdict above all:
// as etcd reads it, and what is behind that.
type exam struct {
	Verification
	segments []Segment
	contents []contents // of each
	runs     []run      // entries that follow each other, up to stop
	snaps    []Mark     // up to stop
	snapSegs []int      // the segment that each is in
	state    HardState
	stop     *int // index in Damages of the first damage behind which etcd reads nothing
	crc      CRC  // of the last record that etcd reads
	skipped  int  // segments whose rest etcd passes over, from the first one on
	all      EntryID
	replaced int64 // entries written with an index that had been written before
	open     *Break
	inFlight bool   // the last record is just being written
	bare     bool   // a log by itself, not in a data directory
	dbLink   string // where the database's link leads, which is not there
	noCopy   bool   // a folder stands where a repair puts a copy of the last segment
	noSnap   string // why the database's folder cannot be had; "" is that it can
	applied  uint64 // the database's consistent index after the log was read, for its snapshot records
	foreign  []foreign
	members  []memberEntry // up to stop
	standing standing
	request  Request
	sent     bool // the database is one that a leader sent, and etcd takes it
	missing  bool // there was none beside it
	doubtful bool // it may call a voter a learner
}

// run is entries that follow each other by index, in one segment.
type run struct {
	segment  int
	at       Position // of the first
	from, to EntryID
}

func (x *exam) begin(seg Segment) {
	x.segments, x.contents = append(x.segments, seg), append(x.contents, contents{})
	x.Segments++
	x.Verification.Bytes += seg.Bytes
}

func (x *exam) record(r *Record) {
	x.Records++
	x.contents[len(x.contents)-1].see(r)
	if b := x.open; b != nil {
		if b.Behind == 0 {
			b.Resumed = &Position{r.File, r.Offset}
		}
		b.Behind++
		if b.after == nil && r.Type == EntryType {
			b.after = &EntryID{r.Entry.Index, r.Entry.Term}
		}
	}
	if !x.passesOver() {
		x.crc = r.CRC
	}
	switch r.Type {
	case EntryType:
		x.entry(r)
	case MetadataType:
		if x.Records <= 2 || x.Metadata == (Metadata{}) {
			x.Metadata = r.Metadata
		}
	case StateType:
		if x.reads() {
			x.state = r.State
		}
	case SnapshotType:
		if x.reads() {
			x.snaps = append(x.snaps, Mark{r.Snapshot, r.Position})
			x.snapSegs = append(x.snapSegs, len(x.segments)-1)
		}
	case CRCType:
	}
}

func (x *exam) entry(r *Record) {
	id := EntryID{r.Entry.Index, r.Entry.Term}
	if x.Entries > 0 && id.Index <= x.all.Index && x.stop == nil {
		x.replaced += int64(x.all.Index - id.Index + 1) //nolint:gosec // fewer than there are entries
	}
	x.Entries++
	x.all = id
	if !x.reads() {
		return
	}
	x.foreigner(r)
	seg := len(x.segments) - 1
	if n := len(x.runs); n > 0 && x.runs[n-1].segment == seg && x.runs[n-1].to.Index+1 == id.Index {
		x.runs[n-1].to = id
		return
	}
	x.runs = append(x.runs, run{seg, r.Position, id, id})
}

// passesOver reports that the segment in hand is one whose rest etcd does not read. A
// length of 0 ends a segment, and the CRC that the next one begins with is held against
// that of all before only where there is one (decodeRecord in decoder.go): that is how
// the oldest segment is passed over from its very beginning on, without a word.
func (x *exam) passesOver() bool { return len(x.segments) <= x.skipped }

// reads reports that etcd reads what is at hand.
func (x *exam) reads() bool { return x.stop == nil && !x.passesOver() }

func (x *exam) damaged(d *Damage, rec *Record) {
	if d.inFlight {
		x.inFlight = true
		return
	}
	x.Damaged++
	x.contents[len(x.contents)-1].spoil(d)
	b := Break{Damage: *d, Record: x.Records + 1, Type: rec.Type, segment: len(x.segments) - 1, before: x.all}
	if n := len(x.segments); d.Class == BadChain && d.Offset == 0 && n > 1 {
		b.Why += chainWords(x.segments[n-2], x.segments[n-1])
	}
	if rec.Type == EntryType {
		if rec.Entry.Index == 0 {
			rec.content()
		}
		if rec.Entry.Index > 0 {
			b.Entry = &EntryID{rec.Entry.Index, rec.Entry.Term}
		}
	}
	if d.Class == Hidden && !d.Last && x.stop == nil && x.crc == 0 {
		x.skipped = len(x.segments)
	}
	stops := x.reads() && b.stops()
	// The verdict rests on the first of each segment, and on where etcd stops.
	first := x.stop == nil && (len(x.Damages) == 0 || x.Damages[len(x.Damages)-1].segment != b.segment)
	if len(x.Damages) >= maxDamages && !stops && !first {
		x.open = &b // counted, not kept
		return
	}
	x.Damages = append(x.Damages, b)
	x.open = &x.Damages[len(x.Damages)-1]
	if stops {
		x.stop = new(len(x.Damages) - 1)
	}
}

// stops reports damage behind which etcd reads nothing. What its decoder lets
// pass is a complaint where the record is used: of an entry and of metadata, only
// behind the snapshot that it begins with.
func (b *Break) stops() bool {
	switch b.Class {
	case Unknown, Conflict:
		return false
	case BadData:
		return b.Type == StateType || b.Type == SnapshotType
	case Torn, BadCRC, Broken, BadChain, Hidden, NotRead, Nobody:
	}
	return true
}

// count says of each damage what is lost by it, once all was read.
func (x *exam) count() {
	for i := range x.Damages {
		b := &x.Damages[i]
		b.Lost = span(b.before.Index+1, x.all.Index)
		switch {
		case b.after != nil && b.after.Index > b.before.Index:
			b.Unreadable = span(b.before.Index+1, b.after.Index-1)
		case b.after == nil && b.Entry != nil && b.Entry.Index > x.all.Index:
			b.Unreadable = span(b.before.Index+1, b.Entry.Index)
			b.Lost = b.Unreadable
		}
	}
}
