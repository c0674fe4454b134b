package server

import (
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
)

// boundTo returns etcd's flags in front of a configuration that exists already:
// asking a flag for its value reads a copy of cfg. embed.Config.AddFlags cannot
// do that, since it begins by writing its defaults into what it is bound to.
// Feature gates and the values that etcd copies by hand are not among what can
// be read, see handCopied.
func boundTo(cfg *embed.Config) *flagSet {
	// Two of the flags are bound to globals of rafthttp, which AddFlags resets.
	readTimeout, writeTimeout := rafthttp.ConnReadTimeout, rafthttp.ConnWriteTimeout
	shadow := embed.NewConfig()
	fs := newFlagSet(shadow)
	rafthttp.ConnReadTimeout, rafthttp.ConnWriteTimeout = readTimeout, writeTimeout

	secure, auth := shadow.DiscoveryCfg.Secure, shadow.DiscoveryCfg.Auth
	*shadow = *cfg
	if cfg.DiscoveryCfg.Secure != nil {
		*secure = *cfg.DiscoveryCfg.Secure
	}
	if cfg.DiscoveryCfg.Auth != nil {
		*auth = *cfg.DiscoveryCfg.Auth
	}
	fs.cfg = shadow
	return fs
}
