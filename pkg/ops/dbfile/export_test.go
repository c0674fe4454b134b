package dbfile

import "context"

// LiveAtWithKeys is LiveAt with a small table, so that many passes are needed.
func (f *File) LiveAtWithKeys(ctx context.Context, revision int64, keys int) (*LiveSet, error) {
	return f.liveAt(ctx, revision, keys, f.stopped)
}
