package server

// derive fills in what etcd makes of other settings before it starts: the
// initial cluster of the name, the host to advertise where only 0.0.0.0 is
// listened on, the data directory of the name. Once is enough.
func (c *Config) derive() {
	if c.derived {
		return
	}
	c.derived = true
	cfg := c.etcd
	before := map[string]string{
		"initial-cluster":             cfg.InitialCluster,
		"initial-advertise-peer-urls": joinURLs(cfg.AdvertisePeerUrls),
		"advertise-client-urls":       joinURLs(cfg.AdvertiseClientUrls),
		"data-dir":                    cfg.Dir,
	}
	if host, err := cfg.UpdateDefaultClusterFromName(c.defaultInitialCluster); err != nil {
		c.note(false, "failed to detect default host", "error", err.Error())
	} else if host != "" {
		c.note(false, "detected default host for advertise", "host", host)
	}
	if cfg.Dir == "" {
		cfg.Dir = cfg.Name + ".etcd"
		c.note(true, "'data-dir' was empty; using default", "data-dir", cfg.Dir)
	}
	after := map[string]string{
		"initial-cluster":             cfg.InitialCluster,
		"initial-advertise-peer-urls": joinURLs(cfg.AdvertisePeerUrls),
		"advertise-client-urls":       joinURLs(cfg.AdvertiseClientUrls),
		"data-dir":                    cfg.Dir,
	}
	for key, was := range before {
		if after[key] != was {
			c.origins[key] = OriginDerived
		}
	}
}
