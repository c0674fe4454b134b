// Command kvd is the one binary for people who are on call for etcd.
package main

import (
	"os"

	"kvd/cmd/kvd/cli"
)

func main() { os.Exit(cli.Main()) }
