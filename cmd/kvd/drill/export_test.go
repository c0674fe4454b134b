package drill

// Without is for tests of what a drill may conclude from a look that lacks something.
var Without = (*Said).without
