// Command kvd is the one binary for people who are on call for etcd.
package main

import (
	"os"
	"runtime/debug"

	"kvd/cmd/kvd/cli"
)

func main() { os.Exit(seen(cli.Main)) }

// seen shows a panic of what it runs, and ends it as a defect. Go ends a program that
// panics with 2, which here means that the call was wrong and that nothing was
// sent. A panic of another goroutine still ends like that.
func seen(run func() int) (code int) {
	defer func() {
		if p := recover(); p != nil {
			code = cli.Defect(os.Stderr, p, debug.Stack())
		}
	}()
	return run()
}
