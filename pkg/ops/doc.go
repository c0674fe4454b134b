// Package ops holds what kvd does to a cluster, one operation per file. Each
// operation looks at a cluster.View, makes a plan.Plan of guarded steps, and
// leaves showing, asking and running to its caller.
package ops
