package keyspace

// WithoutStream has a look do what it does with servers before etcd 3.7.
func (o *LookOptions) WithoutStream() { o.noStream = true }
