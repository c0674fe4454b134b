package cli

import (
	"context"

	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
)

// painFlags are those that every drill of a load has.
type painFlags struct {
	drill.PainOptions
	quota byteSize
}

// addFlags has these defaults.
func (f *painFlags) addFlags(fs *pflag.FlagSet, o drill.PainOptions) {
	f.PainOptions = o
	fs.IntVar(&f.Members, "members", f.Members, "members of each cluster, 1 to 5")
	fs.Var(&f.quota, "quota", "--quota-backend-bytes of each member (default: etcd's, 2 GiB)")
	fs.Uint64Var(&f.Seed, "seed", f.Seed, "what all that is random follows from, in both loads")
	fs.DurationVar(&f.Duration, "duration", f.Duration, "how long each load is measured")
	fs.DurationVar(&f.Warmup, "warmup", f.Warmup, "how long it runs before that")
	addStageFlags(fs, &f.Keep, &f.Dir)
}

func (f *painFlags) options() drill.PainOptions {
	f.QuotaBytes = int64(f.quota)
	return f.PainOptions
}

// painCommon is what the help of every drill of a load ends with.
const painCommon = ` Both loads follow from one seed: who
acts in both does so at the same times. Latencies are shown and not judged, since
they depend on what else the machine does.

It touches no other cluster, and leaves no process and no file behind, also when
it is interrupted or fails. Both loads can be put by hand: the commands are
printed. What is told comes from the report that -o json prints, number by number.`

func painCost(what string) string {
	return "Some " + what + "; with larger numbers more, in proportion. Nothing outside the machine, and no cluster but its own."
}

func painExits() []int { return []int{3, 4, 9} }

func runDrillPain(ctx context.Context, app *App, p drill.Pain, o drill.PainOptions) error {
	return playDrill(ctx, app, tellPain, func(ctx context.Context, told func(drill.PainReport, drill.Phase)) (drill.PainReport, error) {
		o.Told = told
		return drill.PlayPain(ctx, p, o, app.Progress())
	})
}
