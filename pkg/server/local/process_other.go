//go:build unix && !linux

package local

import "syscall"

// sysProcAttr puts the child into a process group of its own. Only Linux can
// promise that it dies with us.
func sysProcAttr(detach bool) *syscall.SysProcAttr {
	if detach {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}
