package ops

import "fmt"

// leastFill is how full bbolt leaves a page of more than one record, as a share: it joins
// one that a removal has left below a quarter to its neighbour (rebalance in node.go).
const leastFill = 0.25

// otherFinding names what is in use and is no record that is kept. Where objects were
// written among many changes of others, a compaction leaves pages that hold a few records
// each, in use to the last byte. What is more than these explain is held by a reader, or
// by a compaction that has not ended.
func otherFinding(f *FileContent) Finding {
	out := Finding{Cause: FindHeld, Member: f.Member, Message: fmt.Sprintf("%.0f %% of the file (%s) is in use by nothing that is kept: ",
		100*float64(f.Other)/float64(f.DBSize), binary(f.Other))}
	kept := f.Live.Bytes + f.Live.Error
	if f.Leases != nil {
		kept += f.Leases.Bytes.Bytes + f.Leases.Bytes.Error
	}
	if float64(f.Other) <= kept*(1/leastFill-1) {
		out.Cause = FindPartlyFilled
		out.Message += "pages that a compaction has left partly filled look like that, or a compaction that is still under way"
		out.Hint = "kvd defrag --min-gain 0 packs them; with an alarm: kvd alarm recover"
		return out
	}
	out.Message += "a reader holds on to its pages, as a snapshot does until it is sent, or a compaction is still under way"
	out.Hint = "look for a snapshot that does not end (`kvd alarm recover` and `kvd defrag` refuse while there is one), then look again"
	return out
}
