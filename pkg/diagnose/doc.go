// Package diagnose says what is wrong with an etcd cluster, how that is known, how
// bad it is, and what to type next; and what was looked at and found good.
//
// Looking and judging are apart. Collect (a live cluster) and the Read functions
// (data directories, snapshots, recorded metrics) fill an Input, which is data and
// nothing else. Diagnose runs the checks over it. A check never asks a server, so
// that each is tested on recorded and on made-up inputs: bad, good, and what looks
// bad and is not.
//
// What the checks hold to:
//
//   - Counters are compared between two samples. What a process has counted since
//     it started says nothing of now.
//   - What only one sample shows is not called certain.
//   - What could not be looked at is listed as that, and never as good or bad.
//   - A finding that follows from another says so (Finding.ExplainedBy).
//   - Numbers that decide stand in one table (Limits), with where they are from.
package diagnose
