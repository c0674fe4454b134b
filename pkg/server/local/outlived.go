package local

import "kvd/pkg/ops/fault"

// CauseExited is that of a member whose process ended by itself.
const CauseExited = "exited"

// Outlived is nil if every member still runs, after something that none of them was to
// end in. Else it is an error of op, of kind Unavailable with CauseExited, which names the
// first that does not, with its last words.
func (c *Cluster) Outlived(op string) error {
	for i := range c.Len() {
		if c.Running(i) {
			continue
		}
		return &fault.Error{Kind: fault.Unavailable, Cause: CauseExited, Op: op, Subject: c.Name(i), Msg: "the member ended during the load, which proves nothing then",
			Hint: "its last words: " + c.LogTail(i, 1)}
	}
	return nil
}
