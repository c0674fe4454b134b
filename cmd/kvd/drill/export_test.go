package drill

// Without is for tests of what a drill may conclude from a look that lacks something.
var Without = (*Said).without

// SameWork and TooSlow are for tests of what follows where one load got further than the
// other.
var (
	SameWork = Figure.sameWork
	TooSlow  = Figure.tooSlow
)
