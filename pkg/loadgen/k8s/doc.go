// Package k8s has the loads that Kubernetes makes, one file for each: who acts,
// how often, with which of pkg/loadgen/shape's requests. The rates are those of
// Kubernetes 1.37 and stand, with the file they come from, where they are used.
package k8s
