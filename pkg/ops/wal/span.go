package wal

import "fmt"

// EntrySpan is a run of entries by index.
type EntrySpan struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	Count uint64 `json:"count"`
}

// span is the entries from one to another, nil if there are none.
func span(from, to uint64) *EntrySpan {
	if to < from {
		return nil
	}
	return &EntrySpan{from, to, to - from + 1}
}

// String names the entries.
func (s *EntrySpan) String() string {
	if s.Count == 1 {
		return fmt.Sprintf("entry %d", s.From)
	}
	return fmt.Sprintf("entries %d to %d", s.From, s.To)
}

// are is the beginning of a sentence about the entries.
func (s *EntrySpan) are() string {
	if s.Count == 1 {
		return s.String() + " is"
	}
	return s.String() + " are"
}

func (s *EntrySpan) them() string {
	if s.Count == 1 {
		return "it"
	}
	return "them"
}

// were is the beginning of a sentence about so many entries.
func were(n int64) string {
	if n == 1 {
		return "1 entry was"
	}
	return fmt.Sprintf("%d entries were", n)
}
