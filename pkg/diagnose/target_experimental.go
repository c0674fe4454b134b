package diagnose

// experimental are the names that etcd 3.4 to 3.6 have behind "experimental-", as flags or
// in a configuration file, and what takes the place of those that 3.7 does not have under
// the bare name. A list, as other programs have such flags too, and one file may
// set several of them: kubeadm's and k3s's have those of the API server and of kubelet.
func experimental() map[string]string {
	return map[string]string{
		"initial-corrupt-check":             "--feature-gates=InitialCorruptCheck=true",
		"compact-hash-check-enabled":        "--feature-gates=CompactHashCheck=true",
		"enable-lease-checkpoint":           "--feature-gates=LeaseCheckpoint=true",
		"enable-lease-checkpoint-persist":   "--feature-gates=LeaseCheckpointPersist=true",
		"stop-grpc-service-on-defrag":       "--feature-gates=StopGRPCServiceOnDefrag=true",
		"txn-mode-write-with-shared-buffer": "--feature-gates=TxnModeWriteWithSharedBuffer=true",

		"bootstrap-defrag-threshold-megabytes": "", "compact-hash-check-time": "", "compaction-batch-limit": "", "compaction-sleep-interval": "",
		"corrupt-check-time": "", "distributed-tracing-address": "", "distributed-tracing-instance-id": "", "distributed-tracing-sampling-rate": "",
		"distributed-tracing-service-name": "", "downgrade-check-time": "", "enable-distributed-tracing": "", "max-learners": "", "memory-mlock": "",
		"peer-skip-client-san-verification": "", "snapshot-catchup-entries": "", "snapshot-catch-up-entries": "--snapshot-catchup-entries",
		"warning-apply-duration": "", "warning-unary-request-duration": "", "watch-progress-notify-interval": "",
	}
}
