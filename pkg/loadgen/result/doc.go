// Package result is what a load came to: latencies as histograms, a row per
// second, what the members' own metrics said meanwhile. It reads and writes them,
// adds up the results of several generators, judges them by objectives, compares
// two, and draws them. It knows nothing of etcd and sends nothing.
package result
