//go:build !linux

package atomicfile

func renameNew(from, to string) error { return linkAndRemove(from, to) }
