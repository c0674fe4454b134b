package diagnose_test

import (
	"slices"

	"kvd/pkg/ops/cluster"
)

// tokens has each member make a signed token and show it to the others. Refused are pairs of
// who made it and who was shown it.
func (w *world) tokens(refused ...[2]uint64) {
	t := &cluster.TokenTrial{}
	for _, m := range w.in.Now.View.Members {
		t.Made = append(t.Made, cluster.MadeToken{Member: m, Kind: "RS256"})
		for _, o := range w.in.Now.View.Members {
			if o.ID != m.ID {
				t.Used = append(t.Used, cluster.UsedToken{Maker: m, Taker: o, Refused: slices.Contains(refused, [2]uint64{m.ID, o.ID})})
			}
		}
	}
	w.in.Tokens = t
}
