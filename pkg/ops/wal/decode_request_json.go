package wal

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// jsonBytes writes bytes without loss: as they are if they are UTF-8, else in
// base64 under another name.
type jsonBytes struct {
	text *string
	raw  []byte
}

func asJSON(b []byte) jsonBytes {
	if utf8.Valid(b) {
		s := string(b)
		return jsonBytes{text: &s}
	}
	return jsonBytes{raw: b}
}

// marshal is json.Marshal without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// keyJSON is a key, and the end of a range of them.
type keyJSON struct {
	Key     *string `json:"key,omitempty"`
	KeyRaw  []byte  `json:"key_base64,omitempty"`
	End     *string `json:"range_end,omitempty"`
	EndRaw  []byte  `json:"range_end_base64,omitempty"`
	FromKey bool    `json:"from_key,omitempty"` // all keys from this one on
}

func keysJSON(key, end []byte) keyJSON {
	var out keyJSON
	k := asJSON(key)
	out.Key, out.KeyRaw = k.text, k.raw
	switch {
	case len(end) == 0:
	case string(end) == toLast:
		out.FromKey = true
	default:
		e := asJSON(end)
		out.End, out.EndRaw = e.text, e.raw
	}
	return out
}

// valueJSON is a value: its size, and its beginning where that may be shown.
type valueJSON struct {
	Bytes      *int    `json:"value_bytes,omitempty"`
	Preview    *string `json:"value_preview,omitempty"`
	PreviewRaw []byte  `json:"value_preview_base64,omitempty"`
}

func valuesJSON(value, preview []byte) valueJSON {
	n := len(value)
	out := valueJSON{Bytes: &n}
	if len(preview) > 0 {
		p := asJSON(preview)
		out.Preview, out.PreviewRaw = p.text, p.raw
	}
	return out
}

// MarshalJSON adds key and range_end (key_base64, range_end_base64 for what is
// not UTF-8), or from_key; of a put the size of its value, and its preview.
func (o Op) MarshalJSON() ([]byte, error) {
	type plain Op
	var out struct {
		*keyJSON
		*valueJSON
		plain
	}
	out.plain = plain(o)
	if o.Op != TxnType {
		k := keysJSON(o.Key, o.End)
		out.keyJSON = &k
	}
	if o.put {
		v := valuesJSON(o.Value, o.Preview)
		out.valueJSON = &v
	}
	return marshal(out)
}

// MarshalJSON adds key and range_end as Op has them, and what is compared with:
// value, or of a value its size and its preview.
func (c Compare) MarshalJSON() ([]byte, error) {
	type plain Compare
	var out struct {
		keyJSON
		plain
		*valueJSON
		Value *any `json:"value,omitempty"`
	}
	out.plain, out.keyJSON = plain(c), keysJSON(c.Key, c.End)
	if c.Target == "value" {
		v := valuesJSON(c.Value, c.Preview)
		out.valueJSON = &v
		return marshal(out)
	}
	var with any = c.Number
	if c.Target == "lease" {
		with = LeaseID(c.Number)
	}
	out.Value = &with
	return marshal(out)
}

// MarshalJSON adds key and range_end as Op has them, and "password": "redacted"
// for a request that has one.
func (a Auth) MarshalJSON() ([]byte, error) {
	type plain Auth
	var out struct {
		plain
		*keyJSON
		Password string `json:"password,omitempty"`
	}
	out.plain = plain(a)
	if a.Key != "" || a.End != "" {
		k := keysJSON([]byte(a.Key), []byte(a.End))
		out.keyJSON = &k
	}
	if a.HasSecret {
		out.Password = "redacted"
	}
	return marshal(out)
}

// MarshalJSON adds the value's size and its preview.
func (q V2) MarshalJSON() ([]byte, error) {
	type plain V2
	return marshal(struct {
		plain
		valueJSON
	}{plain(q), valuesJSON(q.Value, q.Preview)})
}
