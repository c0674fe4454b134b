package cli

import (
	"cmp"
	"fmt"
	"io"

	"kvd/cmd/kvd/cli/config"
	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/server"
)

// serveConfig is the result of kvd serve --print-config, in the form of kvd
// config view.
type serveConfig struct {
	Source   string         `json:"source"`
	Profile  string         `json:"profile,omitempty"`
	Values   []config.Value `json:"values"`
	Warnings []string       `json:"warnings,omitempty"`
}

// printServeConfig shows what the server would run with. serve takes no flags of
// kvd's but a few, so the format comes with its own -o.
func printServeConfig(app *App, cfg *server.Config) error {
	app.Global.Output = render.Format(cmp.Or(cfg.Output, string(app.Global.Output)))
	v := serveConfig{Source: cfg.Source(), Profile: cfg.Profile(), Warnings: cfg.Warnings()}
	for _, s := range cfg.Settings() {
		v.Values = append(v.Values, config.Value{Key: s.Key, Value: s.Value, Origin: s.Origin, Redacted: s.Redacted})
	}
	return app.Print(v, func(w io.Writer) error { return drawServeConfig(w, v) })
}

func drawServeConfig(w io.Writer, v serveConfig) error {
	fmt.Fprintf(w, "source: %s\n", render.Safe(v.Source))
	if v.Profile != "" {
		fmt.Fprintf(w, "profile: %s\n", v.Profile)
	}
	for _, warning := range v.Warnings {
		fmt.Fprintf(w, "warning: %s\n", render.Safe(warning))
	}
	return configColumns().Write(w, v.Values)
}

// drawProfiles shows what each profile sets, and why.
func drawProfiles(w io.Writer) {
	for _, p := range server.Profiles() {
		fmt.Fprintf(w, "\nPROFILE %s: %s\n", p.Name, p.Purpose)
		for _, v := range p.Values {
			fmt.Fprintf(w, "  %s=%s\n", v.Key, v.Value)
			for _, line := range server.Wrap(v.Reason, 100) {
				fmt.Fprintf(w, "      %s\n", line)
			}
		}
	}
}
