package cluster

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// FormatID writes a cluster, member or lease ID as etcdctl does: hexadecimal
// without leading zeros.
func FormatID(id uint64) string { return strconv.FormatUint(id, 16) }

// ParseID reads what FormatID writes; a leading 0x is allowed.
func ParseID(s string) (uint64, error) {
	id, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a hexadecimal ID", s)
	}
	return id, nil
}

// hexID is an ID in JSON: a string, since a number would lose its last digits
// in whatever reads JSON numbers as floats.
type hexID uint64

func (h hexID) MarshalJSON() ([]byte, error) { return json.Marshal(FormatID(uint64(h))) }

func (h *hexID) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	id, err := ParseID(s)
	*h = hexID(id)
	return err
}
