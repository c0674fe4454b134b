// Package wal reads a member's write-ahead log: streaming, in bounded memory,
// and without ever locking, repairing or writing anything, so that the log of a
// running server can be read too.
//
// # The format
//
// A WAL is a folder of segments named SEQUENCE-INDEX.wal, both of sixteen hex
// digits: the segment's number and the index of its first raft entry. A segment
// is a run of frames (server/storage/wal, encoder.go and decoder.go of etcd
// 3.7.3):
//
//	8 bytes  length, little-endian: the lower 56 bits count the record's bytes;
//	         if bit 63 is set, bits 56 to 58 count the bytes of padding
//	         behind it, which round a frame up to a multiple of 8
//	record   a protobuf walpb.Record: type, CRC, data
//	padding
//
// A length of 0, or the end of the file, ends a segment: segments are made 64 MB
// long at once, and the last one is zero behind its last record. The CRC is
// Castagnoli's and runs on from record to record, over the data alone; the first
// record of each segment (type CRC) holds the value so far, so that a reader can
// begin at any segment. Behind it stand the metadata (who the member is), and,
// but for the first segment, the hard state (term, vote, commit).
//
// docs/formats/wal.md has more of it, and what a start does with it, with the sources.
//
// The log is appended to and never rewritten. Where a leader has replaced
// entries that were not committed, both the old and the new ones are in it, and
// the later record is the one that counts.
package wal
