package local

import "syscall"

// sysProcAttr puts the child into a process group of its own, so that Ctrl-C in
// the terminal reaches only us, and has the kernel kill it when we are gone. A
// detached child gets a session of its own instead.
func sysProcAttr(detach bool) *syscall.SysProcAttr {
	if detach {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
