package diagnose

// Checks lists every check, in the order in which they are made and shown. Causes
// stand before what follows from them.
func Checks() []Check {
	return []Check{
		checkQuorum(),
		checkEndpoints(),
		checkUnstarted(),
		checkLists(),
		checkStrangers(),
		checkElections(),
		checkLag(),
		checkLearner(),
		checkNoSpace(),
		checkHealthProbe(),
		checkQuota(),
		checkQuotaSettings(),
		checkFree(),
		checkHistory(),
		checkGrowth(),
		checkShare(),
		checkObjects(),
		checkChurn(),
		checkCorruptAlarm(),
		checkRevisions(),
		checkHashes(),
		checkDisk(),
		checkCommit(),
		checkExpensive(),
		checkReadIndex(),
		checkWatch(),
		checkMemory(),
		checkLeaseKeys(),
		checkLeaseAge(),
		checkLeaseChurn(),
		checkPeers(),
		checkAdvertised(),
		checkSpread(),
		checkCerts(),
		checkVersions(),
		checkBackups(),
	}
}
