module kvd/scripts/lint

go 1.26.0

require go.yaml.in/yaml/v3 v3.0.6

require (
	github.com/BurntSushi/toml v1.6.0 // indirect
	github.com/OpenPeeDeeP/depguard/v2 v2.3.0 // indirect
	github.com/gobwas/glob v1.0.0 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
)

tool github.com/OpenPeeDeeP/depguard/v2/cmd/depguard
