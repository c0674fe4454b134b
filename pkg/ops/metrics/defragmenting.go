package metrics

// Defragmenting reports whether a member defragments, or has been asked to and has not
// answered yet. The gauge alone does not tell: of several requests one waits for the
// other before it sets the gauge to 1, and in the moment between two the gauge is 0
// and the member answers its status (server/v3 etcdserver/server.go, Defragment;
// storage/backend/backend.go, defrag). Requests that were begun and have not ended
// do: the server counts the end when the work is done, also where its client has gone.
func (s *Sample) Defragmenting() bool {
	n, _ := s.Value(DefragInflight, nil)
	return n > 0 || s.underWay("Defragment")
}

// Snapshotting reports whether a client takes the member's database.
func (s *Sample) Snapshotting() bool { return s.underWay("Snapshot") }

func (s *Sample) underWay(method string) bool {
	of := Labels{"grpc_service": "etcdserverpb.Maintenance", "grpc_method": method}
	started, _ := s.Value(RPCStarted, of)
	handled, _ := s.Value(RPCHandled, of)
	return started > handled
}
