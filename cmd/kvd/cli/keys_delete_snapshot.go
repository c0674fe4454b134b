package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/snapshot"
)

// firstSnapshot is the snapshot that is saved before keys are deleted. Runs that were
// interrupted leave a series: before.db, before-2.db, before-3.db.
type firstSnapshot struct {
	client *cluster.Client
	app    *App
	file   string
}

// find returns the last of the series, which has what can be of use: each key that
// is still to be deleted is in it, or was written since. The next is saved beside it.
// The error says what is in the way.
func (f *firstSnapshot) find(ctx context.Context, view cluster.View) (last string, err error) {
	first := f.file
	for n := 2; there(f.file); n++ {
		last, f.file = f.file, numbered(first, n)
	}
	if last != "" {
		if err := f.whole(ctx, last, view); err != nil {
			return "", err
		}
	}
	return last, hinted(f.options().CheckDest(), "file_exists", otherName)
}

const otherName = "give --snapshot another name"

// whole refuses what is no whole snapshot of this cluster.
func (f *firstSnapshot) whole(ctx context.Context, file string, view cluster.View) error {
	no := &fault.Error{Kind: fault.Refused, Cause: "file_exists", Op: keysDeleteOp, Subject: file, Hint: otherName}
	m, err := snapshot.ReadManifest(snapshot.ManifestPath(file))
	if err != nil {
		no.Msg, no.Err = "it is there, and no snapshot that kvd has saved", err
		return no
	}
	if m.ClusterID != snapshot.ID(view.ID) {
		no.Msg = "it is there, and the snapshot of another cluster"
		return no
	}
	v, err := snapshot.Verify(ctx, file, snapshot.Options{}, f.app.Progress())
	if err != nil {
		return err
	}
	if v.Verdict != snapshot.Restorable || v.Content == nil || v.Content.Integrity.Manifest != snapshot.ManifestMatches {
		no.Msg = "it is there, and no snapshot that could be relied on: " + v.Summary
		return no
	}
	return nil
}

func (f *firstSnapshot) options() snapshot.SaveOptions {
	s := snapshot.DefaultSaveOptions()
	s.Dest, s.Manifest, s.KvdVersion = f.file, snapshot.ManifestPath(f.file), version
	return s
}

// save saves it where find has found room.
func (f *firstSnapshot) save(ctx context.Context, view cluster.View) (string, error) {
	s := f.options()
	if err := s.CheckDest(); err != nil { // which Force would go over
		return "", hinted(err, "file_exists", otherName)
	}
	s.Force = view.HasAlarm(cluster.AlarmNoSpace) // then nobody writes, so that reading a member does not make its file grow
	saved, err := snapshot.Save(ctx, f.client, view, s, f.app.Progress())
	if err != nil {
		return "", hinted(err, "near_quota", "save one where it does no harm, `kvd snapshot save --force` here if nobody writes much; then give --no-snapshot")
	}
	return fmt.Sprintf("%s, of revision %d; `kvd snapshot restore` makes a cluster of it", saved.File, saved.Manifest.Revision), nil
}

// hinted gives an error of a cause another hint: its own names flags that are not
// here.
func hinted(err error, cause, hint string) error {
	var e *fault.Error
	if fault.CauseOf(err) == cause && errors.As(err, &e) {
		return e.WithHint(hint)
	}
	return err
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// numbered puts a number before a file's extension: before.db.zst, before-2.db.zst.
func numbered(path string, n int) string {
	ext := filepath.Ext(path)
	ext = filepath.Ext(strings.TrimSuffix(path, ext)) + ext
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, ext), n, ext)
}
