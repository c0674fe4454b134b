// Package snapshot looks into snapshots and backend files: what is in them
// (Inspect), and whether etcd would take them (Verify). Both read the file once
// for its hashes, beside that its pages in the order of their keys, and never
// write.
package snapshot
