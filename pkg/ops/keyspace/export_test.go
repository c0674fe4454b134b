package keyspace

// WithoutStream has a look do what it does with servers before etcd 3.7.
func (o *LookOptions) WithoutStream() { o.noStream = true }

// WithoutStream has a source do what it does with servers before etcd 3.7, of which
// the oldest do not tell how far a watch has come.
func (o *LiveOptions) WithoutStream() { o.noStream = true }

// NeedsAllKeys is what becomes of the error of a read.
var NeedsAllKeys = needsAllKeys
