package result

// MaxRows bounds what a run remembers of its course: half an hour in seconds.
// When it is reached, rows are joined two by two, so that a run of any length
// fits into the same memory.
const MaxRows = 1800

// AppendRow adds a row, and joins what there is where there would be too many.
func AppendRow(rows []Row, r Row) []Row {
	if len(rows) < MaxRows {
		return append(rows, r)
	}
	half := rows[:0]
	for i := 0; i+1 < len(rows); i += 2 {
		half = append(half, join(rows[i], rows[i+1]))
	}
	clear(rows[len(half):])
	return append(half, r)
}

// join makes one row of two that follow each other.
func join(a, b Row) Row {
	out := Row{
		At: a.At, Span: a.Span + b.Span, Warmup: a.Warmup && b.Warmup,
		Due: a.Due + b.Due, Sent: a.Sent + b.Sent, Dropped: a.Dropped + b.Dropped, Waiting: b.Waiting,
		Lag: max(a.Lag, b.Lag), Memory: max(a.Memory, b.Memory),
		Ops: addOps(a.Ops, b.Ops),
	}
	for i := range out.Ops {
		out.Ops[i].Response.Fold()
	}
	if out.Span > 0 {
		out.CPU = (a.CPU*a.Span + b.CPU*b.Span) / out.Span
	}
	for _, m := range b.Members {
		for _, before := range a.Members {
			if before.Name == m.Name {
				m = joinMember(before, m)
			}
		}
		out.Members = append(out.Members, m)
	}
	if len(b.Members) == 0 {
		out.Members = a.Members
	}
	return out
}

// joinMember adds up what grew, keeps what was worst, and takes the later state
// of the rest.
func joinMember(a, b MemberRow) MemberRow {
	b.Memory = max(a.Memory, b.Memory)
	b.Pending = max(a.Pending, b.Pending)
	b.Work = a.And(b.Work)
	b.Defragging = a.Defragging || b.Defragging
	return b
}
