package ops

import (
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/envelope"
)

// age says whether a key is as old as was asked for.
type age int

const (
	ageOld age = iota
	ageYoung
	ageUnknown
)

// old tells the age of a key. That of an object of Kubernetes is what kubectl shows
// as AGE, the time since its creationTimestamp. Of any other key it is the time
// since it was last written, as far as somebody has sampled which revision it was
// when. A lease tells nothing: what is left of it is the time since it was last
// kept alive.
func (d *deletion) old(i *keyspace.Item) age {
	want := d.opts.Select.OlderThan
	if want == 0 {
		return ageOld
	}
	if at, ok := createdAt(i.Value); ok {
		if d.now.Sub(at) >= want {
			return ageOld
		}
		return ageYoung
	}
	if !d.known.Known {
		return ageUnknown
	}
	if i.ModRevision <= d.known.Rev {
		return ageOld
	}
	return ageYoung
}

// createdAt reads an object's creationTimestamp.
func createdAt(value []byte) (time.Time, bool) {
	head, body := envelope.Read(value)
	switch head.Form {
	case envelope.Protobuf:
		meta, _ := protoField(body, metadataField)
		stamp, ok := protoField(meta, creationField)
		if !ok {
			return time.Time{}, false
		}
		seconds, ok := protoVarint(stamp, secondsField)
		return time.Unix(seconds, 0), ok && seconds > 0
	case envelope.JSON:
		var o struct {
			Metadata struct {
				CreationTimestamp time.Time `json:"creationTimestamp"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(body, &o); err != nil {
			return time.Time{}, false
		}
		return o.Metadata.CreationTimestamp, !o.Metadata.CreationTimestamp.IsZero()
	}
	return time.Time{}, false
}

// Numbers of fields: metadata is the first of every object; the others are of
// ObjectMeta and Time (k8s.io/apimachinery, pkg/apis/meta/v1/generated.proto).
const (
	metadataField = 1
	creationField = 8
	secondsField  = 1
)

func protoField(b []byte, want protowire.Number) ([]byte, bool) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, false
		}
		if num == want && typ == protowire.BytesType {
			v, m := protowire.ConsumeBytes(b[n:])
			return v, m >= 0
		}
		m := protowire.ConsumeFieldValue(num, typ, b[n:])
		if m < 0 {
			return nil, false
		}
		b = b[n+m:]
	}
	return nil, false
}

func protoVarint(b []byte, want protowire.Number) (int64, bool) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || num != want || typ != protowire.VarintType {
		return 0, false
	}
	v, m := protowire.ConsumeVarint(b[n:])
	return int64(v), m >= 0 //nolint:gosec // seconds since 1970
}
