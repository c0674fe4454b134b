package wal

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxDepth is how deep messages may be nested: as deep as protobuf's own decoder
// follows them (protowire.DefaultRecursionLimit).
const maxDepth = 10000

// Op is a request for keys: of its own, or within a transaction. Fields that a
// type has not are zero.
type Op struct {
	Op    RequestType `json:"op,omitempty"`
	Key   []byte      `json:"-"` // see MarshalJSON
	End   []byte      `json:"-"` // of a range or delete_range: empty for one key, a zero byte for all from Key on
	Value []byte      `json:"-"` // shown as its size, and Preview
	Bytes int         `json:"-"` // of the request, encoded

	Lease       LeaseID `json:"lease,omitempty"`
	PrevKV      bool    `json:"prev_kv,omitempty"`
	IgnoreValue bool    `json:"ignore_value,omitempty"`
	IgnoreLease bool    `json:"ignore_lease,omitempty"`

	Limit        int64 `json:"limit,omitempty"`
	Revision     int64 `json:"revision,omitempty"`
	SortOrder    int32 `json:"sort_order,omitempty"`
	SortTarget   int32 `json:"sort_target,omitempty"`
	Serializable bool  `json:"serializable,omitempty"`
	KeysOnly     bool  `json:"keys_only,omitempty"`
	CountOnly    bool  `json:"count_only,omitempty"`
	MinModRev    int64 `json:"min_mod_revision,omitempty"`
	MaxModRev    int64 `json:"max_mod_revision,omitempty"`
	MinCreateRev int64 `json:"min_create_revision,omitempty"`
	MaxCreateRev int64 `json:"max_create_revision,omitempty"`

	Txn     *Txn    `json:"txn,omitempty"`        // of a nested transaction
	Deeper  bool    `json:"deeper,omitempty"`     // nested deeper than is shown
	Object  *Object `json:"kubernetes,omitempty"` // what the key names
	Preview []byte  `json:"-"`                    // the beginning of Value, where values are shown

	put bool
}

// Txn is a transaction. Which of its branches was taken is not in the log.
type Txn struct {
	Compare []Compare `json:"compare"`
	Success []Op      `json:"success"`
	Failure []Op      `json:"failure"`
}

// Compare is a condition of a transaction: a property of a key, or of each key
// up to End, and what it has to be.
type Compare struct {
	Target  string  `json:"target"` // version, create_revision, mod_revision, value, lease
	Result  string  `json:"result"` // = > < !=
	Key     []byte  `json:"-"`      // see MarshalJSON
	End     []byte  `json:"-"`
	Number  int64   `json:"-"` // what it is compared with, for all targets but value
	Value   []byte  `json:"-"`
	Preview []byte  `json:"-"`
	Object  *Object `json:"kubernetes,omitempty"`
}

// IsPut reports whether it is a put, be its type named by Op or by what is around it.
func (o *Op) IsPut() bool { return o.put }

// decode reads a PutRequest, RangeRequest or DeleteRangeRequest (rpc.proto).
func (o *Op) decode(b []byte) bool {
	o.put = o.Op == PutType
	return walk(b, o.number, func(num protowire.Number, v []byte) {
		switch {
		case num == 1:
			o.Key = v
		case num == 2 && o.Op == PutType:
			o.Value = v
		case num == 2:
			o.End = v
		}
	})
}

func (o *Op) number(num protowire.Number, v uint64) {
	n, is := int64(v), v != 0 //nolint:gosec // an int64 on the wire
	switch o.Op {
	case PutType:
		switch num {
		case 3:
			o.Lease = LeaseID(n)
		case 4:
			o.PrevKV = is
		case 5:
			o.IgnoreValue = is
		case 6:
			o.IgnoreLease = is
		}
	case DeleteRangeType:
		if num == 3 {
			o.PrevKV = is
		}
	default:
		o.rangeNumber(num, n)
	}
}

func (o *Op) rangeNumber(num protowire.Number, n int64) {
	switch num {
	case 3:
		o.Limit = n
	case 4:
		o.Revision = n
	case 5:
		o.SortOrder = int32(n) //nolint:gosec // an enum, cut as protobuf does
	case 6:
		o.SortTarget = int32(n) //nolint:gosec // an enum
	case 7:
		o.Serializable = n != 0
	case 8:
		o.KeysOnly = n != 0
	case 9:
		o.CountOnly = n != 0
	case 10:
		o.MinModRev = n
	case 11:
		o.MaxModRev = n
	case 12:
		o.MinCreateRev = n
	case 13:
		o.MaxCreateRev = n
	}
}

// decode reads a TxnRequest; depth is how many messages deep it may go on.
func (t *Txn) decode(b []byte, depth int) bool {
	if depth < 0 {
		return false
	}
	if t.Compare == nil { // lists without members, not none
		t.Compare, t.Success, t.Failure = []Compare{}, []Op{}, []Op{}
	}
	ok := true
	whole := walk(b, func(protowire.Number, uint64) {}, func(num protowire.Number, v []byte) {
		if !ok {
			return
		}
		switch num {
		case 1:
			t.Compare = append(t.Compare, Compare{})
			ok = t.Compare[len(t.Compare)-1].decode(v)
		case 2:
			t.Success = append(t.Success, Op{})
			ok = t.Success[len(t.Success)-1].oneOf(v, depth-1)
		case 3:
			t.Failure = append(t.Failure, Op{})
			ok = t.Failure[len(t.Failure)-1].oneOf(v, depth-1)
		}
	})
	return whole && ok
}

// oneOf reads a RequestOp. The last kind of request in it counts; of two of one
// kind protobuf merges the second into the first.
func (o *Op) oneOf(b []byte, depth int) bool {
	if depth < 0 {
		return false
	}
	ok := true
	whole := walk(b, func(protowire.Number, uint64) {}, func(num protowire.Number, v []byte) {
		kind := [...]RequestType{"", RangeType, PutType, DeleteRangeType, TxnType}
		if !ok || num < 1 || int(num) >= len(kind) {
			return
		}
		if o.Op != kind[num] {
			*o = Op{Op: kind[num]}
		}
		o.Bytes += len(v)
		if o.Op != TxnType {
			ok = o.decode(v)
			return
		}
		if o.Txn == nil {
			o.Txn = &Txn{}
		}
		ok = o.Txn.decode(v, depth-1)
	})
	return whole && ok
}

// decode reads a Compare.
func (c *Compare) decode(b []byte) bool {
	var result, target uint64
	var union protowire.Number // which of the values is there
	ok := walk(b, func(num protowire.Number, v uint64) {
		switch num {
		case 1:
			result = v
		case 2:
			target = v
		case 4, 5, 6, 8:
			union, c.Number, c.Value = num, int64(v), nil //nolint:gosec // an int64 on the wire
		}
	}, func(num protowire.Number, v []byte) {
		switch num {
		case 3:
			c.Key = v
		case 7:
			union, c.Number, c.Value = num, 0, v
		case 64:
			c.End = v
		}
	})
	c.Result = enum(result, "=", ">", "<", "!=")
	c.Target = enum(target, "version", "create_revision", "mod_revision", "value", "lease")
	if union != protowire.Number(target)+4 { //nolint:gosec // small, or no target at all
		c.Number, c.Value = 0, nil // etcd compares with what is not there as with zero
	}
	return ok
}

// enum names a value of an enum; one without a name is its number.
func enum(v uint64, names ...string) string {
	n := int32(v) //nolint:gosec // cut as protobuf does
	if n >= 0 && int(n) < len(names) {
		return names[n]
	}
	return strconv.Itoa(int(n))
}
