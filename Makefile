# Everything that a contributor or a machine runs on this repository.
# The targets are explained by `make help`, and in CONTRIBUTING.md.

.DEFAULT_GOAL := help
SHELL := /bin/sh

# How long `make fuzz` searches with each fuzz target.
FUZZTIME ?= 10s
# What `make race` runs: names of races and flags of `lab race`; empty is everything.
RACE ?=
# How much `make chaos` does to each store.
CHAOS ?= --jobs 200000 --kills 200 --restarts 20 --spread 7m --workers 4

# SQLite's C code in Go is compiled without the detector's checks: its memory is not on Go's heap, where
# the detector ignores it, and passing through the checks takes more than half of the run.
DETECT = -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)$$/  make \1 | \2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null || \
		sed -n 's/^\([a-z]*\):.*## \(.*\)$$/  make \1: \2/p' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## a small shop, its workers and what goes wrong, in 15 to 20 s, once it is compiled
	go run ./cmd/later demo

.PHONY: test
test: bin/run bin/gotest ## all tests, with the race detector, against real databases
	./script/install
	bin/run -- bin/gotest $(DETECT) -count=1 -timeout 30m ./...

.PHONY: check
check: bin/staticcheck ## formatting, go vet, staticcheck, the build of every module, the lab's own tests
	./script/check

.PHONY: fuzz
fuzz: bin/run ## search with each fuzz target for a short time (FUZZTIME=10s)
	./script/install
	bin/run -- ./script/fuzz $(FUZZTIME)

.PHONY: chaos
chaos: ## kill workers and databases at random, then check the history (half an hour)
	./script/install
	go run ./chaos --store postgres $(CHAOS)
	go run ./chaos --store sqlite $(CHAOS)

.PHONY: race
race: bin/lab ## race Later against other queues, write docs/benchmarks.md (hours; RACE="drain steady --rounds 3")
	./script/install-race
	cd lab && ../bin/lab race $(RACE)
	cd lab && ../bin/lab report

.PHONY: racequick
racequick: bin/lab ## try all races at small sizes, for half an hour: the figures are worth nothing
	./script/install-race
	cd lab && ../bin/lab race --quick --seconds 5 $(RACE)

.PHONY: docs
docs: ## write docs/cli.md anew from the help texts of the command
	go run ./cmd/later docs > docs/cli.md.new
	mv docs/cli.md.new docs/cli.md

.PHONY: clean
clean: ## remove what the other targets built
	rm -rf bin

# Go decides what is out of date: these always run, and are quick when nothing changed.
.PHONY: bin/run bin/gotest bin/staticcheck bin/lab
bin/run:
	@go build -o $@ ./internal/testdb/run
bin/gotest:
	@go build -o $@ ./internal/gotest
bin/staticcheck:
	@go -C tools build -o ../$@ honnef.co/go/tools/cmd/staticcheck
bin/lab:
	@go -C lab build -o ../$@ .
