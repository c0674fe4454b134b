// Package server runs an etcd server inside this process, configured the way
// the etcd binary is: the same flags, the same ETCD_* environment variables,
// the same --config-file.
//
// etcd's own main cannot be called as a library: it ends the process on bad
// input, in a dozen places and sometimes with a stack trace. This package reads
// the same input with etcd's own flag definitions, checks beforehand what etcd
// would die of, and returns every failure as a *fault.Error.
//
// One process runs one server. Some of what the flags set (raft timeouts, the
// gRPC and zap loggers) is global in etcd's packages, and so are its metrics.
package server
