// Package dbfile reads etcd's backend files: member/snap/db, and snapshots, which
// are the same pages with a SHA-256 behind them. It is the one reader that the
// rest of kvd builds on, and it is made for files that may be damaged:
//
//   - It never writes. Bytes and modification time stay as they are, and a
//     read-only file in a read-only folder will do.
//   - It reads with pread, not through a memory map: touching a mapped page
//     beyond the end of a file is a SIGBUS, which no program can recover from.
//   - Every offset, count and length that comes from the file is checked against
//     the file before it is used. Pages are followed downwards only, each once,
//     in the order of their keys; whatever breaks that is a *Damage with page
//     and offset, never a panic.
//   - Memory is bounded whatever the size: a buffer per level of the tree, and
//     one bit per page and per record where those are asked for.
//
// A file that a running server holds is not opened, and the error names the
// process, unless Options.Live asks for it.
//
// The format is described in docs/formats/snapshot.md, with its sources.
package dbfile
