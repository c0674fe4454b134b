package cluster

// Causes: why something failed, in words that never change. Scripts and checks
// compare them; people read the message and the hint beside them.
const (
	CauseConnectionRefused  = "connection_refused"       // nobody listens on that port
	CauseUnreachable        = "unreachable"              // no route to that host
	CauseNoAnswer           = "no_answer"                // packets vanish, or it accepts and never answers
	CauseDNSFailure         = "dns_failure"              // the host name does not resolve
	CauseBadEndpoint        = "bad_endpoint"             // the endpoint is not an address
	CauseTLSRequired        = "tls_required"             // an https server, an http endpoint
	CauseTLSNotSupported    = "tls_not_supported"        // an http server, an https endpoint
	CauseTLSFailed          = "tls_failed"               // the handshake failed for another reason
	CauseTLSFiles           = "tls_files"                // a certificate or key file cannot be read
	CauseUnknownCA          = "unknown_ca"               // the server's certificate is not from a CA we trust
	CauseNameMismatch       = "name_mismatch"            // the server's certificate is for another name
	CauseClientCertRequired = "client_cert_required"     // the server wants a certificate, and got none
	CauseClientCertRejected = "client_cert_rejected"     // the server does not accept the one it got
	CauseCertExpired        = "cert_expired"             // the server's or our own certificate, or that of the CA of one, is out of its dates
	CauseCertUnfit          = "cert_unfit"               // the server's certificate is from our CA, and not made for a server
	CauseAuthRequired       = "auth_required"            // authentication is on, no user was given
	CauseAuthFailed         = "auth_failed"              // wrong user or password
	CauseAuthNotEnabled     = "auth_not_enabled"         // a user was given, authentication is off
	CausePermissionDenied   = "permission_denied"        // the user lacks the role
	CauseNotEtcd            = "not_etcd"                 // something else answers there
	CausePeerPort           = "peer_port"                // etcd's port for its peers
	CauseMetricsPort        = "metrics_port"             // etcd's port for metrics and health, or HTTP only
	CauseGRPCProxy          = "grpc_proxy"               // etcd's grpc-proxy, which stands for no member
	CauseNotStarted         = "not_started"              // added to the cluster, never started
	CauseOtherMember        = "other_member"             // the address leads to another member than it should
	CauseOtherCluster       = "other_cluster"            // the address leads to a member of another cluster
	CauseNotEachTime        = "not_each_time"            // one connection to the address is let in, and another refused
	CauseStarting           = "starting"                 // the process is up, and not serving clients yet
	CauseNoLeader           = "no_leader"                // the member knows no leader
	CauseNoQuorum           = "no_quorum"                // fewer voters answer than it takes
	CauseVotersUnknown      = "voters_unknown"           // nobody told the member list: only a learner was asked, or a user is wanted
	CauseLeaderChanged      = "leader_changed"           // leadership moved while the request was under way
	CauseNotLeader          = "not_leader"               // only the leader does this
	CauseRequestTimedOut    = "request_timed_out"        // etcd's own verdict after 7 s
	CauseDeadline           = "deadline"                 // it is there, and did not answer this request in time
	CauseCanceled           = "canceled"                 // the caller gave up
	CauseTooManyRequests    = "too_many_requests"        // more than 5000 entries not yet applied
	CauseRequestTooLarge    = "request_too_large"        // over the server's --max-request-bytes
	CauseClientMsgTooLarge  = "client_message_too_large" // over the client's own send limit; nothing was sent
	CauseTooManyOps         = "too_many_operations"      // over the server's --max-txn-ops
	CauseNoSpace            = "nospace"                  // quota reached: read-only until disarmed
	CauseCorrupt            = "corrupt"                  // the CORRUPT alarm is raised
	CauseLearner            = "learner"                  // a learner does not serve this
	CauseCompacted          = "compacted"                // the revision is gone
	CauseFutureRevision     = "future_revision"          // the revision does not exist yet
	CauseLeaseNotFound      = "lease_not_found"
	CauseMemberNotFound     = "member_not_found"
	CauseUnhealthy          = "unhealthy"          // etcd refuses a membership change that would cost the quorum
	CauseNotEnoughStarted   = "not_enough_started" // etcd refuses a membership change: too few members have ever started
	CausePeerURLExists      = "peer_url_exists"    // another member has that peer URL
	CauseLearnerNotReady    = "learner_not_ready"  // a learner that lags can't be promoted
	CauseNotALearner        = "not_a_learner"      // only learners can be promoted
	CauseTooManyLearners    = "too_many_learners"  // over the servers' --max-learners
	CauseStopped            = "server_stopped"     // the member is shutting down
	CauseUnsupported        = "not_supported"      // this version of etcd has no such request
	CauseRejected           = "rejected"           // the server refused, or failed, for a reason of its own
	CauseConnectionLost     = "connection_lost"    // the connection broke, and the endpoint is fine now
	CauseNoEndpoint         = "no_endpoint"        // none was given, or no member can be asked
	CauseUnknown            = "unknown"
)
