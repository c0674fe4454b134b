package dbfile

import "context"

// LiveAtWithSlots is LiveAt with a small table, so that many passes are needed.
func (f *File) LiveAtWithSlots(ctx context.Context, revision int64, slots int) (*LiveSet, error) {
	return f.liveAt(ctx, revision, slots, f.stopped)
}
