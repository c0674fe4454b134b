package server

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"

	"go.etcd.io/etcd/api/v3/version"
	cconfig "go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
)

// Config is what one etcd server is to be started with. Parse makes it; it is
// used for one Start.
type Config struct {
	// ShowHelp and ShowVersion are set when the arguments ask for help or for
	// the version; there is nothing to start then.
	ShowHelp    bool
	ShowVersion bool

	etcd                  *embed.Config
	args                  []string
	defaultInitialCluster string
	notes                 []note // said once the server's own logger is there
}

// note is a line for the server's log that came up before there was a log.
type note struct {
	warn   bool
	msg    string
	fields []string // alternating keys and values
}

// Etcd returns the configuration in etcd's own terms. Changing it changes what
// Start starts.
func (c *Config) Etcd() *embed.Config { return c.etcd }

// Parse reads the command line (without the program's name) and the environment
// (as os.Environ gives it) by etcd's rules: a flag wins over its ETCD_* variable,
// giving both is refused, and with a config file (--config-file or
// ETCD_CONFIG_FILE) everything else is ignored. Errors are *fault.Error of kind
// fault.Usage. Log files named in the configuration are opened.
func Parse(args, environ []string) (*Config, error) {
	c := &Config{etcd: embed.NewConfig(), args: args}
	c.defaultInitialCluster = c.etcd.InitialCluster
	fs := newFlagSet(c.etcd)

	if err := fs.set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			c.ShowHelp = true
			return c, nil
		}
		return nil, usage("flag", "", err.Error(), hintForFlag(args, err))
	}
	if fs.set.NArg() > 0 {
		return nil, strayArgument(fs.set.Arg(0))
	}
	if fs.printVersion {
		c.ShowVersion = true
		return c, nil
	}

	env := parseEnviron(environ)
	path := fs.configFile
	if path == "" {
		path = env.lookup(envName("config-file"))
	}
	var err error
	if path != "" {
		err = c.fromFile(path)
	} else {
		err = c.fromFlags(fs, env)
	}
	if err != nil {
		return nil, err
	}
	c.enforce()
	return c, nil
}

// fromFlags fills the configuration from flags and environment.
func (c *Config) fromFlags(fs *flagSet, env environment) error {
	if err := fs.setFromEnv(env, c); err != nil {
		return err
	}
	fs.copyTo(c.etcd, c)
	if fs.fallback.String() == fallbackProxy {
		return usage("flag", "--discovery-fallback",
			"the v2 proxy no longer exists, so discovery cannot fall back to it",
			"leave --discovery-fallback at \"exit\"")
	}
	return c.validate("")
}

// enforce sets what etcd sets whatever the input says, and notes deprecations.
func (c *Config) enforce() {
	c.etcd.V2Deprecation = cconfig.V2DeprDefault
	if c.etcd.WarningUnaryRequestDuration == 0 {
		c.etcd.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	}
	for _, d := range deprecated() {
		if c.etcd.FlagsExplicitlySet[d.flag] {
			c.note(true, d.msg)
		}
	}
}

// validate runs kvd's checks, which stop what would end the process inside
// etcd, and then etcd's own. source is the config file, or empty.
func (c *Config) validate(source string) error {
	if err := checkBeforeLogging(c.etcd); err != nil {
		return err
	}
	if err := c.etcd.Validate(); err != nil {
		return explainInvalid(err, source)
	}
	return checkTLS(c.etcd)
}

func (c *Config) note(warn bool, msg string, fields ...string) {
	c.notes = append(c.notes, note{warn: warn, msg: msg, fields: fields})
}

// VersionText is what `etcd --version` prints, with kvd named as what runs it.
func VersionText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "etcd Version: %s\n", version.Version)
	fmt.Fprintf(&b, "Git SHA: %s\n", version.GitSHA)
	fmt.Fprintf(&b, "Go Version: %s\n", runtime.Version())
	fmt.Fprintf(&b, "Go OS/Arch: %s/%s\n", runtime.GOOS, runtime.GOARCH)
	return b.String()
}

// strayArgument explains an argument that is not a flag. The two subcommands of
// the etcd binary are named, since a drop-in would be expected to have them.
func strayArgument(arg string) error {
	switch arg {
	case "gateway", "grpc-proxy":
		return usage("unsupported", arg, "kvd does not contain etcd's "+arg, "run it with the etcd binary: etcd "+arg)
	}
	return usage("flag", arg, "not a flag", "etcd's flags start with -- ; kvd serve --help lists them")
}
