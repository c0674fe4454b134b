package server

import (
	"errors"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"

	"kvd/pkg/ops/fault"
)

// A database that is no database is damage; one that can't be opened is not.
func TestExplainDamagedDatabase(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]fault.Kind{
		"failed to open database (path d/member/snap/db): invalid database":           fault.Damage,
		"failed to open database (path d/member/snap/db): checksum error":             fault.Damage,
		"failed to open database (path d/member/snap/db): open db: permission denied": fault.Unavailable,
		"failed to open WAL: openAtIndex failed: wal: file not found which matches":   fault.Damage,
	} {
		err := explainStart(embed.NewConfig(), errors.New(text))
		if got := fault.KindOf(err); got != want {
			t.Errorf("%s: %v, want %v (%v)", text, got, want, err)
		}
		if want == fault.Damage && !strings.Contains(fault.HintOf(err), "kvd member replace") {
			t.Errorf("%s: %v names no command that helps", text, err)
		}
	}
}
