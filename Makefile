# kvd: everything that is done with this repository. Needs Go and make; git is
# used where it is there.
GO       ?= go
FUZZTIME ?= 30s
# -p 2: packages that start servers run two at a time, whatever the machine.
# -parallel 6: their tests wait for servers more than they compute.
# -trimpath as in build, so that nothing is compiled twice.
TESTFLAGS ?= -trimpath -count=1 -p 2 -parallel 6 -timeout 18m
# Tests whose name ends like this are the slower half. One pattern for both halves:
# what one leaves out, the other runs, in the packages that have such tests (linking
# the others would take half a minute).
MORE    := _more$$
MORE_IN  = $(addprefix ./,$(sort $(dir $(shell grep -rlE --include='*_test.go' '^func [A-Za-z0-9_]+_more[^A-Za-z0-9_]' cmd pkg))))

# The version is what git says, "dev" where git or the repository is missing.
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X kvd/cmd/kvd/cli.version=$(VERSION)
# Without a usable repository go would fail to stamp the binary, not skip it.
BUILDVCS := $(shell git rev-parse HEAD >/dev/null 2>&1 || echo -buildvcs=false)

# Without libc, as etcd's own releases are: the binary runs on any distribution and
# in an image without one, and starts faster. One setting for everything, so that
# nothing is compiled twice.
export CGO_ENABLED ?= 0
export KVD_TEST_BINARY := $(CURDIR)/bin/kvd

.DEFAULT_GOAL := help
.PHONY: alerts help build install demo test test-more test-long lint fuzz bench docs findings compatibility check clean

help: ## show this list
	@echo "make TARGET, where TARGET is one of"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/kvd
	$(GO) build -trimpath $(BUILDVCS) -ldflags '$(LDFLAGS)' -o bin/kvd ./cmd/kvd

install: ## install kvd into $GOBIN (or $GOPATH/bin)
	$(GO) install -trimpath $(BUILDVCS) -ldflags '$(LDFLAGS)' ./cmd/kvd

demo: build ## fill a throwaway cluster until it is read-only, and rescue it
	bin/kvd drill nospace

test: build ## run the tests (less than five minutes on two cores)
	$(GO) test $(TESTFLAGS) -skip '$(MORE)' ./...

test-more: build ## run those that make test leaves out for their time (as long again)
	$(GO) test $(TESTFLAGS) -run '$(MORE)' $(MORE_IN)

test-long: build ## run all tests: both halves, and what takes a machine that has time
	$(GO) test $(TESTFLAGS) -timeout 60m -tags long ./...

lint: ## formatting, go vet, import rules and their canaries
	scripts/lint/run

alerts: ## unit-test the alert rules with promtool (its first build takes minutes)
	scripts/promtool/run

fuzz: ## run every fuzz target for FUZZTIME (30s)
	scripts/fuzz $(FUZZTIME)

bench: build ## measure (20 minutes, 6 GiB of disk), and write the figures to docs/measured.json
	$(GO) -C scripts/bench run .
	$(GO) test -run '^$$' -bench . ./...

docs: ## write docs/commands from the command tree, alert rules from the limits, and the tables of the recorded trace
	$(GO) test -count=1 ./cmd/kvd/cli -run '^TestMeasuredFigures$$' -update
	$(GO) test -count=1 ./cmd/kvd/cli -run '^(TestCommandDocs|TestAlertRules)$$' -update
	$(GO) test -count=1 ./cmd/kvd -run '^TestTraceTables$$' -update

findings: build ## run the cases of diagnose on real servers, and write docs/findings from what they show
	rm -f pkg/diagnose/testdata/runs/*.json
	KVD_RECORD_RUNS=$(CURDIR)/pkg/diagnose/testdata/runs $(GO) test -trimpath -count=1 -timeout 40m -parallel 6 -tags long ./pkg/diagnose -run '^TestCase'
	KVD_RECORD_RUNS=$(CURDIR)/pkg/diagnose/testdata/runs $(GO) test -trimpath -count=1 -tags long ./pkg/diagnose -run '^TestRecordFixtures$$'
	$(GO) test -count=1 ./cmd/kvd/cli -run '^TestFindingPages$$' -update

compatibility: build ## try every command on every version of etcd, and write docs/compatibility.md
	$(GO) test -count=1 -timeout 60m -tags long ./cmd/kvd -run '^TestEveryVersion$$' -update

check: ## what CI runs
	.ci/run

clean: ## remove what was built
	rm -rf bin dist
