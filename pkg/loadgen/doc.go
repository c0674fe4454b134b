// Package loadgen puts load on an etcd cluster and measures how it takes it.
//
// A Scenario says who acts: each Actor has a schedule of its own, which follows
// from the seed and its name and from nothing else. That is an open loop: what
// is due is due, whether the server has answered what came before or not, so a
// server that stands still for five seconds is seen by every request that was
// due in them. Response times run from that moment. (A generator that sends the
// next request when the last is answered hides just this; its one long request
// drowns among the short ones.)
//
// Run plays a scenario; pkg/loadgen/result has what comes of it,
// pkg/loadgen/k8s the scenarios, pkg/loadgen/shape the requests.
package loadgen
