package keyspace

import "encoding/binary"

const tombstoneFlag = 1

// appendChange writes what a sorter keeps of a change beside its key.
func appendChange(b []byte, c *Change) []byte {
	flags := byte(0)
	if c.Tombstone {
		flags = tombstoneFlag
	}
	b = append(b, flags)
	for _, n := range [...]int64{c.ModRevision, c.Sub, c.CreateRevision, c.Version, c.Lease, c.Size, c.ref.at, c.ref.size} {
		b = binary.AppendUvarint(b, uint64(n)) //nolint:gosec // comes back as it was
	}
	return append(b, c.Value...)
}

// parseChange is the inverse. Slices of the change are parts of key and body.
func parseChange(key, body []byte) Change {
	var n [8]int64
	rest := body[1:]
	for i := range n {
		u, size := binary.Uvarint(rest)
		n[i], rest = int64(u), rest[size:] //nolint:gosec // as it was
	}
	c := Change{Sub: n[1], Tombstone: body[0]&tombstoneFlag != 0}
	c.Key, c.ModRevision, c.CreateRevision, c.Version, c.Lease = key, n[0], n[2], n[3], n[4]
	c.Size, c.ref = n[5], reference{n[6], n[7]}
	if len(rest) > 0 {
		c.Value = rest
	}
	return c
}
