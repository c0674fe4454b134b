package drill

import (
	"time"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/plan"
)

// PainReport is what was done and measured in the drill of a load. Whatever is told
// of it is told from here.
type PainReport struct {
	Drill     string    `json:"drill"`
	Symptom   string    `json:"symptom"` // the finding that it is about
	Members   int       `json:"members"`
	Seed      uint64    `json:"seed"`
	StartedAt time.Time `json:"started_at"`

	Pain     PainRun  `json:"pain"`
	Remedied PainRun  `json:"remedied"`
	Figures  []Figure `json:"figures"`

	Ending
}

// PainRun is one load on one cluster.
type PainRun struct {
	What         string            `json:"what"`
	Command      string            `json:"command"` // what puts this load by hand
	StartSeconds float64           `json:"start_seconds"`
	Endpoints    []string          `json:"endpoints"`
	Dir          string            `json:"dir"`
	Load         result.Report     `json:"load"`             // as kvd loadgen -o json prints it
	Gauges       []Gauge           `json:"gauges,omitempty"` // metrics of the members that are not in it
	Moved        []plan.StepResult `json:"moved,omitempty"`  // what kvd member move-leader reports
	Stall        *Stall            `json:"stall,omitempty"`
	Waits        Waits             `json:"waits"`
	CleanedUp    *CleanedUp        `json:"cleaned_up,omitempty"` // of the first cluster, before the second is started
}
