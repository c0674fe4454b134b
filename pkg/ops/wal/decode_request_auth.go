package wal

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Auth is a request about users, roles and permissions. Passwords and their
// hashes, and tokens, are left out whatever is asked for.
type Auth struct {
	User       string `json:"user,omitempty"`
	Role       string `json:"role,omitempty"`
	Permission string `json:"permission,omitempty"` // read, write, readwrite
	Key        string `json:"-"`                    // see MarshalJSON
	End        string `json:"-"`                    // as in Op
	HasSecret  bool   `json:"-"`                    // shown as "redacted"
	NoPassword bool   `json:"no_password,omitempty"`
}

// decode reads the request of a type. All have strings in field 1 and 2, whose
// meaning the type says.
func (a *Auth) decode(t RequestType, b []byte) bool {
	ok := true
	whole := walk(b, func(protowire.Number, uint64) {}, func(num protowire.Number, v []byte) {
		if !ok {
			return
		}
		switch t {
		case "authenticate", "auth_user_change_password": // name, password, token or hash
			a.named(&a.User, num, v)
		case "auth_user_add":
			if num != 3 {
				a.named(&a.User, num, v)
				return
			}
			ok = walk(v, func(num protowire.Number, v uint64) {
				if num == 1 {
					a.NoPassword = v != 0
				}
			}, nil)
		case "auth_user_get", "auth_user_delete":
			set(num, v, &a.User)
		case "auth_user_grant_role", "auth_user_revoke_role":
			set(num, v, &a.User, &a.Role)
		case "auth_role_add", "auth_role_get", "auth_role_delete":
			set(num, v, &a.Role)
		case "auth_role_revoke_permission":
			set(num, v, &a.Role, &a.Key, &a.End)
		case "auth_role_grant_permission":
			if num != 2 {
				set(num, v, &a.Role)
				return
			}
			ok = a.permission(v)
		}
	})
	return whole && ok
}

// named reads a name in field 1, behind which everything is a secret.
func (a *Auth) named(name *string, num protowire.Number, v []byte) {
	if num == 1 {
		*name = string(v)
		return
	}
	a.HasSecret = a.HasSecret || len(v) > 0
}

// set gives fields 1, 2 and so on their place.
func set(num protowire.Number, v []byte, fields ...*string) {
	if num >= 1 && int(num) <= len(fields) {
		*fields[num-1] = string(v)
	}
}

// permission reads an authpb.Permission.
func (a *Auth) permission(b []byte) bool {
	var kind uint64
	ok := walk(b, func(num protowire.Number, v uint64) {
		if num == 1 {
			kind = v
		}
	}, func(num protowire.Number, v []byte) {
		switch num {
		case 2:
			a.Key = string(v)
		case 3:
			a.End = string(v)
		}
	})
	a.Permission = enum(kind, "read", "write", "readwrite")
	return ok
}
