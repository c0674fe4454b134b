package daemon

import (
	"context"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// notify says READY=1 to systemd, keeps its watchdog content for as long as
// /healthz would answer well, and says STOPPING=1 as soon as a stop is asked
// for. Without $NOTIFY_SOCKET nothing is sent.
func (d *daemon) notify(ctx context.Context, side *sync.WaitGroup) {
	sent, err := sd.SdNotify(false, sd.SdNotifyReady+"\nSTATUS=waiting for ticks: "+d.o.Schedule.String())
	if err != nil {
		d.o.Log.Warn("systemd could not be told that kvd is ready", failure(err)...)
	}
	if !sent {
		return
	}
	every := time.Hour
	if watchdog, err := sd.SdWatchdogEnabled(false); err == nil && watchdog > 0 {
		every = watchdog / 3
	}
	side.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				if d.health.now().OK {
					_, _ = sd.SdNotify(false, sd.SdNotifyWatchdog)
				}
			case <-d.stop:
				_, _ = sd.SdNotify(false, sd.SdNotifyStopping)
				return
			case <-ctx.Done():
				_, _ = sd.SdNotify(false, sd.SdNotifyStopping)
				return
			}
		}
	})
}
