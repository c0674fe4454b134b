package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// sample is one run of a command.
type sample struct {
	seconds float64 // from start to end
	cpu     float64 // seconds, of all threads, in user and kernel mode
	rssAnon float64 // MiB: the peak of its anonymous memory, looked at every few ms
}

// sampling is how often a process is looked at. A peak shorter than that is missed.
const sampling = 4 * time.Millisecond

// sampled runs a command, throws away what it prints, and watches its memory. Pages
// of files that it maps are not counted: the kernel takes them back when it wants them.
func sampled(command ...string) (sample, error) { return sampledWith(0, command...) }

// exitDiffer is the exit status of kvd diff where the sides differ.
const exitDiffer = 3

// sampledWith is sampled for a command that ends with this exit status.
func sampledWith(exit int, command ...string) (sample, error) {
	cmd := exec.Command(command[0], command[1:]...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return sample{}, err
	}
	done := make(chan struct{})
	peak := make(chan float64)
	go func() {
		most := 0.0
		for tick := time.NewTicker(sampling); ; {
			select {
			case <-tick.C:
				most = max(most, rssAnon(cmd.Process.Pid))
			case <-done:
				tick.Stop()
				peak <- most
				return
			}
		}
	}()
	err := cmd.Wait()
	s := sample{seconds: time.Since(began).Seconds()}
	close(done)
	s.rssAnon = <-peak
	if cmd.ProcessState.ExitCode() != exit {
		return s, fmt.Errorf("%v: %w\n%s", command, err, complaint.Bytes())
	}
	s.cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return s, nil
}

// rssAnon reads RssAnon of /proc/PID/status, in MiB; 0 where it is not there.
func rssAnon(pid int) float64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "\nRssAnon:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return 0
	}
	return kib / 1024
}

// alternate runs each command so many times, one after the other in turn, so that
// whatever else the machine does hits all of them.
func alternate(runs int, commands ...func() (sample, error)) ([][]sample, error) {
	out := make([][]sample, len(commands))
	for range runs {
		for i, c := range commands {
			s, err := c()
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], s)
		}
	}
	return out, nil
}

// medianOf is the median of one number of the samples.
func medianOf(samples []sample, number func(sample) float64) float64 {
	v := make([]float64, len(samples))
	for i, s := range samples {
		v[i] = number(s)
	}
	return median(v)
}

func seconds(s sample) float64 { return s.seconds }
func cpuTime(s sample) float64 { return s.cpu }
func memory(s sample) float64  { return s.rssAnon }

// measuredCommand is a command with its samples: name is that of its figures.
type measuredCommand struct {
	name, command string
	samples       []sample
}

// versus compares two commands. The processor time is there for machines that have
// other work: it says what of a ratio is the machine's doing.
func versus(ours, theirs measuredCommand, note string) []figure {
	both := ours.command + " / " + theirs.command
	ratio := func(number func(sample) float64) float64 {
		return medianOf(ours.samples, number) / medianOf(theirs.samples, number)
	}
	return []figure{
		{ours.name, medianOf(ours.samples, seconds), "s", ours.command, note},
		{theirs.name, medianOf(theirs.samples, seconds), "s", theirs.command, note},
		{ours.name + "_ratio", ratio(seconds), "ratio", both, note},
		{ours.name + "_cpu_ratio", ratio(cpuTime), "ratio", both, note + "; processor time"},
	}
}
