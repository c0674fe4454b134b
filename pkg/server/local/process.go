package local

import (
	"os/exec"
	"runtime"
)

// process is a child that is always waited for.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once the child has been reaped
}

// startProcess starts cmd. Unless it is to be detached, the kernel kills the
// child when this process ends, however that happens. Linux ties that promise to
// the *thread* that started the child, not to the process, so the goroutine
// keeps its thread until the child is gone.
func startProcess(cmd *exec.Cmd, detach bool) (*process, error) {
	cmd.SysProcAttr = sysProcAttr(detach)
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // the state says how it ended
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}
