//go:build long

package main

import "testing"

// All of it on three members, with what takes them: a voter to move the
// leadership to, a learner that has caught up.
func TestPermissionsOnThreeMembers(t *testing.T) {
	tryPermissions(t, 3, func(need) bool { return true })
}
