package snapshot_test

import (
	"path/filepath"
	"testing"

	"kvd/pkg/ops/snapshot"
)

// What is restored of the snapshot of any version is what that server itself said
// when the snapshot was taken: each key, each change, each lease, the same HashKV,
// users, roles and alarms; and one member, whoever they were before.
func TestRestoreOfRecorded(t *testing.T) {
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content, said := fixture(t, name)
			file := write(t, "s.db", content)
			data := filepath.Join(t.TempDir(), "data")
			if _, err := restore(t, file, oneMember(), snapshot.RestoreTarget{DataDir: data}); err != nil {
				t.Fatal(err)
			}
			db := filepath.Join(data, "member", "snap", "db")
			sameRecords(t, db, said)
			sameContent(t, file, data, false, false)
			s, auth := status(t, db), said.Auth
			if s.Auth.Enabled != auth.Enabled || s.Auth.Users != int64(len(auth.Users)) || s.Auth.Roles != int64(len(auth.Roles)) {
				t.Errorf("auth %+v, the server said %+v", s.Auth, auth)
			}
			if len(s.Alarms) != len(said.Alarms) {
				t.Errorf("alarms %+v, the server said %+v", s.Alarms, said.Alarms)
			}
			if len(s.Members) != 1 || s.Members[0].Name != "m1" || s.Members[0].Learner {
				t.Errorf("members %+v", s.Members)
			}
		})
	}
}
