package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"kvd/pkg/server/local"
)

// TestMain makes this test binary a kvd as well: started under that name it is
// the real main, so that scripts (and the servers they start) run what users
// run, without a second build.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kvd": main})
}

// TestScripts runs testdata/script/*.txtar. See CONTRIBUTING.md for the commands
// that scripts can use beside testscript's own.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, scripts("testdata/script"))
}

// TestScripts_more runs testdata/script-more/*.txtar, the slower half.
func TestScripts_more(t *testing.T) {
	t.Parallel()
	testscript.Run(t, scripts("testdata/script-more"))
}

// scripts are those of a folder, with what all of them can use.
func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[clusterKey{}] = map[string]*local.Cluster{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cluster":  cmdCluster,
			"fill":     cmdFill,
			"json":     cmdJSON,
			"exitcode": cmdExitCode,
			"registry": cmdRegistry,
		},
	}
}

// cmdExitCode is `exitcode N PROGRAM ARGS…`: exec, with the exit code asserted.
// stdout and stderr are there for later commands in any case.
func cmdExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got, err := exitCodeOf(ts.Exec(args[1], args[2:]...)); err != nil || got != want {
		ts.Fatalf("exit code %d (%v), want %d", got, err, want)
	}
}

func exitCodeOf(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode(), nil
	default:
		return -1, fmt.Errorf("did not run to an end of its own: %w", err)
	}
}
