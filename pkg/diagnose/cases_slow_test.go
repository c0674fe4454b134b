//go:build !long

package diagnose_test

// slow says that parameter sets which take seconds are run as well.
const slow = false
