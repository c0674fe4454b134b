package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	etcdversion "go.etcd.io/etcd/api/v3/version"
)

// version is set by the linker (see the Makefile).
var version = "dev" // a variable, since -ldflags -X needs one

// versionInfo is what `kvd version -o json` prints.
type versionInfo struct {
	Version string `json:"version"`
	Etcd    string `json:"etcd_version"`
	Go      string `json:"go_version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Commit  string `json:"commit,omitempty"`
}

func newVersionCmd(app *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of kvd and of the etcd inside it",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runVersion(cmd.Context(), app) },
	}
	return help{
		Long:    "Prints kvd's version and the version of the etcd server that kvd serve runs.",
		Cost:    "Nothing: it connects to nothing.",
		Example: "  kvd version\n  kvd version -o json",
	}.apply(cmd)
}

func runVersion(_ context.Context, app *App) error {
	v := versionInfo{Version: version, Etcd: etcdversion.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return app.Print(v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "kvd %s\netcd %s\n%s %s/%s\n", v.Version, v.Etcd, v.Go, v.OS, v.Arch)
		return err
	})
}
