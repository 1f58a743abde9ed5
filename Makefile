# `make demo` shows weir, `make test` tests a change, `make check` tests a release.
.DEFAULT_GOAL := help
GO ?= go
STATICCHECK = $(GO) tool -modfile=cmd/internal/tools/staticcheck/go.mod staticcheck
GOVULNCHECK = $(GO) tool -modfile=cmd/internal/tools/govulncheck/go.mod govulncheck
VALE = $(GO) tool -modfile=cmd/internal/tools/vale/go.mod vale --config cmd/internal/tools/vale/vale.ini --output line
FUZZTIME ?= 1000x
# Go compiles weir by the profile in cmd/weir, see decision 119. Tests go without it, because each package
# would be compiled twice.
export GOFLAGS := $(strip $(GOFLAGS) -pgo=off)

E2E = cmd/internal/app/e2e
SHORT = -events 60000 -flows 3000 -gap 500ms

GATEWAYS = bin/gateways
CLIENTS = bin/clients
FRAMEWORKS = bin/frameworks

.PHONY: mutants simulate deploy stack stack-faults browser clients gateways guards sdks bench-check bench-compare bench-peers growth setup help demo check build test race lint fuzz bench crash update brokers e2e e2e-short bench-kafka up down monitoring

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## stop real runaways on the screen: no Kafka, no Docker, nothing installed
	@# Without optimisation a cold build takes two thirds of the time, and this is a first look.
	@$(GO) run -gcflags=all='-N -l' ./cmd/weir demo --once

# Half of the time of kfake is waiting, so it runs beside unit.
TEST_STAGES = vet unit+kfake
TEST = $(subst +, ,$(TEST_STAGES))
# A release is built without cgo. What make test compiles is the same then, so all of it is compiled once.
$(TEST) slow: export CGO_ENABLED = 0
# Compilers and tests collect garbage less often, which saves a sixth of their processor time.
$(TEST): export GOGC = 400
# What waits most of its time runs beside another stage, so that CI stays well below its 45 minutes.
LONG = setup lint prose dashboards vulnerabilities openapi slow race deploy simulate+browser crash brokers e2e-short+gateways journeys
STAGES = MAKE="$(MAKE)" LOAD=10s cmd/internal/tools/stages/stages.sh

test: ## test a change: vet, unit tests with -short, the group on kfake; prints the seconds of each
	@$(STAGES) $(TEST_STAGES)

check: ## test a release: what make test runs, then everything that takes longer
	@$(STAGES) $(TEST_STAGES) $(LONG)

.PHONY: long vet unit kfake slow race-all
long: ## what make check runs after make test
	@$(STAGES) $(LONG)

vet: ## format and go vet
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt: $$out"; exit 1; }
	$(GO) vet ./...
	cd $(E2E) && $(GO) vet ./...

# Go's own choice of vet checks is left out of the tests, because make vet runs all of them. More tests and
# packages than processors may run side by side, because many wait most of the time.
unit: ## unit tests, the slow ones in short form
	$(GO) test -short -vet=off -p 4 -parallel 8 ./...

kfake: ## the group and its commands against a broker in the test's process
	cd $(E2E) && $(GO) test -short -vet=off -parallel 8 ./...

slow: ## in full what make unit runs in short form
	$(GO) test $(SLOW)
SLOW = $(addprefix ./,$(sort $(dir $(shell grep -rl --include=*_test.go 'testing\.Short()' analyzer cmd events schemas sink state | grep -v -e $(E2E) -e weir/journeys))))

setup: ## what tests in other languages need
	@# Only what cannot be installed is left out: an error of the compiler fails.
	@if npm ci --silent --no-audit --no-fund --ignore-scripts --prefix sink/guard/typescript; then npm run --silent --prefix sink/guard/typescript prepare; \
	else echo "*** NOT TESTED: weir-guard.ts, because npm did not bring its compiler ***" >&2; fi

# The version is that of the tag, if the commit has one. Without git, set both.
VERSION ?= $(shell git describe --tags --exact-match 2>/dev/null)
REVISION ?= $(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null)
STAMP = -X main.version=$(VERSION) -X main.revision=$(REVISION)

build: ## bin/weir, and bin/weir-hook for coding agents
	$(GO) build -pgo=auto -trimpath -ldflags="$(STAMP)" -o bin/ ./cmd/weir ./cmd/weir-hook

# Packages whose goroutines share state. analyzer has none, as cmd/internal/house tests. The group on
# Kafka is raced by make brokers.
RACE = events/... state/... cmd/internal/pump cmd/internal/group cmd/internal/embedded cmd/internal/ask cmd/internal/api sink/check sink/guard
race: ## the race detector where goroutines share state
	$(GO) test -short -race -vet=off -timeout 30m $(addprefix ./,$(RACE))
	$(GO) test -race -vet=off -run 'OwnAnswer|CostsOneAnswer' ./cmd/internal/app

race-all: ## the race detector over everything
	$(GO) test -race -timeout 60m ./...

lint: ## vet for macOS and for the other modules, staticcheck
	GOOS=darwin $(GO) vet ./...
	cd sink/guard/kafkaguard/e2e && $(GO) vet ./...
	cd $(E2E)/collector && $(GO) vet ./...
	cd sink/inspect/browser && $(GO) vet ./...
	cd cmd/weir/deploy && $(GO) vet ./...
	$(STATICCHECK) ./...

.PHONY: prose dashboards
dashboards: ## the dashboards are those of cmd/internal/tools/dashboards, and read strictly by Grafana's SDK
	cd cmd/internal/tools/dashboards && $(GO) vet . && $(GO) test .

prose: ## the language of pages and comments, by Vale; cmd/internal/tools/vale/held lists what is held to it
	@$(VALE) $$(grep -v '^#' cmd/internal/tools/vale/held)

.PHONY: vulnerabilities sbom reproducible
vulnerabilities: ## known vulnerabilities that weir's code reaches; needs the database at vuln.go.dev
	@out=$$($(GOVULNCHECK) ./... 2>&1); code=$$?; echo "$$out"; \
	case "$$out" in *"fetching vulnerabilities"*) echo "*** NOT CHECKED for known vulnerabilities: their database cannot be reached ***" >&2;; *) exit $$code;; esac

sbom: build ## bin/weir.cdx.json: what bin/weir is made of, as CycloneDX
	$(GO) run ./cmd/internal/tools/sbom bin/weir > bin/weir.cdx.json

reproducible: ## build weir twice, in two folders with two caches, and compare the bytes
	@d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && \
	for i in 1 2; do mkdir "$$d/$$i" && git archive HEAD | tar -x -C "$$d/$$i" && \
	  (cd "$$d/$$i" && GOCACHE="$$d/cache$$i" CGO_ENABLED=0 $(GO) build -pgo=auto -trimpath -buildvcs=false -o weir ./cmd/weir) || exit 1; done; \
	sha256sum "$$d/1/weir" "$$d/2/weir" | cut -d' ' -f1; cmp "$$d/1/weir" "$$d/2/weir" && echo "reproducible: the same bytes"

# Not in check: what it finds by chance must not hold up a change that has nothing to do
# with it. What it has found is kept, and runs with the tests.
fuzz: ## every fuzz target for FUZZTIME (1000x: so many inputs)
	@for p in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "fuzz $$p $$f"; \
	    $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p || exit 1; \
	  done; \
	done

bench: ## ns per event for decode, fold, encode and the whole embedded path
	$(GO) test -run '^$$' -bench . -benchmem ./events ./analyzer ./state ./cmd/internal/app

bench-compare: ## the benchmarks of BASE=REVISION and of this tree in turn, and the ratios
	@[ -n "$(BASE)" ] || { echo 'bench-compare: say with what: make bench-compare BASE=REVISION [ROUNDS=6]'; exit 1; }
	GO="$(GO)" cmd/internal/tools/benchstat/compare.sh "$(BASE)" $(or $(ROUNDS),6)

crash: ## kill -9 `weir run` under load at KILLS moments (50) and compare with an undisturbed replay
	$(GO) test -count=1 -run TestKill -v ./cmd/weir -kills $(or $(KILLS),50)

# Runs $(1) when Apache Kafka can be had, and says so loudly when it cannot.
on_kafka = @cd $(E2E) && if ./kafka.sh jars; then echo "$(1)"; $(1); else \
	echo "*** NOT TESTED against Apache Kafka: see above for what is missing ***" >&2; fi

brokers: ## what talks to brokers, against kfake and Apache Kafka
	cd $(E2E) && $(GO) test -race . && $(GO) test ./trial/...
	cd sink/guard/kafkaguard/e2e && $(GO) test -race ./...
	cd $(E2E)/collector && $(GO) test ./...
	$(call on_kafka,$(GO) run ./trial on-kafka $(GO) test -count=1 .)

e2e: ## kill, freeze, join and drop members under 1,000,000 events and compare with a replay
	cd $(E2E) && $(GO) run ./trial storm
	cd $(E2E) && $(GO) run ./trial storm -real

e2e-short: ## the same faults with fewer events
	cd $(E2E) && $(GO) run ./trial storm $(SHORT)
	$(call on_kafka,$(GO) run ./trial storm -real $(SHORT))
	$(call on_kafka,$(GO) run ./trial budgets -real -latency 30s)

.PHONY: upgrade
upgrade: ## exchange the members of a group from BASE=REVISION for this tree's and back, under load and kills
	@[ -n "$(BASE)" ] || { echo 'upgrade: say from what: make upgrade BASE=REVISION'; exit 1; }
	@d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && git archive "$(BASE)" | tar -x -C "$$d" && (cd "$$d" && $(GO) build -o weir-other ./cmd/weir) && \
	export WEIR_OTHER="$$d/weir-other" && cd $(E2E) && $(GO) test -count=1 -run TestRollingUpgrade -v . && \
	if ./kafka.sh jars; then $(GO) run ./trial on-kafka $(GO) test -count=1 -run TestRollingUpgrade -v .; else echo "*** NOT TESTED against Apache Kafka: see above for what is missing ***" >&2; fi

deploy: ## what the image is built from, the compose file, the examples for Kubernetes and systemd
	cd cmd/weir/deploy && $(GO) test ./...

# In a network, mounts and processes of their own, which all end with it.
on_stack = cmd/weir/deploy/stack/setup.sh bin/stack && \
	(cd cmd/weir/deploy && $(GO) test -c -o $(CURDIR)/bin/stack/trial ./stack) && \
	timeout --foreground 45m unshare --net --mount --pid --fork --kill-child --mount-proc bin/stack/engine/usr/bin/tini-static -- \
	  bin/stack/trial -test.v -test.timeout 40m -setup $(CURDIR)/bin/stack -repo $(CURDIR)

stack: ## docker-compose.yml by a real Docker Engine and Compose: a runaway, the brake, down and up
	$(on_stack) -test.run TestStack

stack-faults: ## the same with faults that it has had put back: each must be found
	$(on_stack) -test.run TestFaults

gateways: ## the real Envoy, Traefik, Caddy and nginx, each asking weir
	sink/check/gateways/install.sh $(GATEWAYS)
	WEIR_GATEWAYS=$(CURDIR)/$(GATEWAYS) $(GO) test -count=1 -v ./sink/check/gateways

.PHONY: journeys
journeys: setup ## what a new user does, with the files of a release and the commands and code of the pages; BASE=REVISION is upgraded from; prints a table
	GO="$(GO)" BASE="$(BASE)" cmd/internal/tools/journeys/journeys.sh

.PHONY: openapi
openapi: ## the description of the HTTP API is up to date and valid OpenAPI 3.1; make update writes it
	cd cmd/internal/tools/openapi && $(GO) vet . && $(GO) test -count=1 .

.PHONY: openapi-clients
openapi-clients: ## a Java and a Rust client are generated from the description, compiled, and stopped by weir
	mvn -q -B dependency:copy -Dartifact=org.openapitools:openapi-generator-cli:7.17.0 -DoutputDirectory=$(CURDIR)/bin/openapi || echo "*** NOT THERE: openapi-generator ***" >&2
	cd cmd/internal/tools/openapi && WEIR_OPENAPI_GENERATOR=$(CURDIR)/bin/openapi/openapi-generator-cli-7.17.0.jar $(GO) test -count=1 -v -timeout 30m -run 'TestGeneratedClients|TestDotnet' .

guards: ## the guards installed as packages, before the tools of real frameworks
	sink/guard/frameworks/install.sh $(CURDIR)/bin/frameworks
	WEIR_FRAMEWORKS=$(CURDIR)/bin/frameworks $(GO) test -count=1 -v ./sink/guard/frameworks

sdks: ## how often the real SDKs of language models and of MCP try again after each refusal, and whether that of Grafana is stopped
	sink/check/sdks/install.sh $(CURDIR)/bin/sdks
	WEIR_SDKS=$(CURDIR)/bin/sdks $(GO) test -count=1 -timeout 30m -v ./sink/check/sdks

clients: ## the real coding agents, stopped by their hooks: calls that ran, were refused, and what the model was told
	sink/check/clients/install.sh $(CLIENTS)
	WEIR_CLIENTS=$(CURDIR)/$(CLIENTS) $(GO) test -count=1 -timeout 60m -v ./sink/check/clients

.PHONY: frameworks
frameworks: ## real agent frameworks with their own telemetry: loops stopped, honest runs not, by file and live
	events/adapter/frameworks/install.sh $(FRAMEWORKS)
	WEIR_FRAMEWORKS=$(CURDIR)/$(FRAMEWORKS) $(GO) test -count=1 -timeout 60m -v ./events/adapter/frameworks

bench-check: ## checks by HTTP beside a Redis script with four counters
	sink/check/gateways/install.sh $(GATEWAYS)
	WEIR_GATEWAYS=$(CURDIR)/$(GATEWAYS) WEIR_REDIS=$(CURDIR)/$(GATEWAYS)/bin/redis-server LD_LIBRARY_PATH=$(CURDIR)/$(GATEWAYS)/fetched/usr/lib/$$(uname -m)-linux-gnu \
	  $(GO) test -count=1 -v -run BesideRedis ./sink/check/gateways

bench-peers: ## catch-up beside a program on Kafka Streams, over flows of several kinds; PEERS="-events N -rounds N -seed N"
	$(call on_kafka,$(GO) run ./trial peers $(PEERS))

.PHONY: profile
profile: ## measure where the time of catch-up goes and write cmd/weir/default.pgo, by which Go compiles weir
	$(call on_kafka,$(GO) run ./trial profile $(CURDIR)/cmd/weir/default.pgo)

growth: ## CPU, memory and disk of one process as flows and partitions become more; GROWTH="-flows N -rounds N -real"
	cd $(E2E) && $(GO) run ./trial growth $(GROWTH)

bench-kafka: ## catch-up and latency on Apache Kafka
	cd $(E2E) && $(GO) run ./trial bench

browser: ## the inspector in a real browser: every page, keyboard, axe, hostile names, under load
	sink/inspect/browser/setup.sh $(CURDIR)/bin/browser
	cd sink/inspect/browser && $(GO) vet . && $(GO) test -count=1 -v . -axe $(CURDIR)/bin/browser/axe.min.js -load $(or $(LOAD),30s) $(BROWSERFLAGS)

monitoring: ## a real Prometheus: what each panel and alert gets, and which alert fires when
	$(GO) test -count=1 -timeout 5m -run TestMonitoring -v ./cmd/weir

SECRETS = $(addprefix .secrets/,intake_token admin_token grafana_password)

up: $(SECRETS) ## weir, Kafka, Prometheus and Grafana by Docker, on this machine alone
	docker compose up --build --detach --wait --wait-timeout 300

down: ## end them; what they keep stays (docker compose down --volumes removes it)
	docker compose down

# Tokens for this machine: made once, never committed. Only who made them gets into the
# folder; in it anyone may read, because containers have users of their own.
.secrets/%:
	@mkdir -p -m 700 .secrets && (umask 077 && head -c 32 /dev/urandom | base64 >$@.part) && chmod 644 $@.part && mv $@.part $@

evidence: ## measure the rules on recorded runs: TRACES="FOLDER..." writes analyzer/EVIDENCE.md
	@[ -n "$(TRACES)" ] || { echo 'evidence: say where the recorded runs are: make evidence TRACES="FOLDER..."'; exit 1; }
	$(GO) run ./cmd/internal/tools/evidence $(TRACES) > analyzer/EVIDENCE.md.new && mv analyzer/EVIDENCE.md.new analyzer/EVIDENCE.md

simulate: ## whole groups with crashes, hand-overs and failing disks and brokers, and orders by hand, by SEEDS (1000) from FIRST (1)
	$(GO) test -count=1 -timeout 0 -run '^Test(Switch)?Simulation$$' -v ./cmd/internal/simulate -seeds $(or $(SEEDS),1000) -first $(or $(FIRST),1)

forecasts: ## measure forecasts of the final spend on recorded runs: RUNS="FOLDER..." writes analyzer/FORECASTS.md
	@[ -n "$(RUNS)" ] || { echo 'forecasts: say where the recorded runs are: make forecasts RUNS="FOLDER..."'; exit 1; }
	$(GO) run ./cmd/internal/tools/evidence -forecasts $(RUNS) > analyzer/FORECASTS.md.new && mv analyzer/FORECASTS.md.new analyzer/FORECASTS.md

.PHONY: release
release: ## bin/release: archives, deb, rpm, SBOM, wheel, npm tarball, Helm chart, image context and checksums of VERSION=v1.2.3; publishes nothing
	cmd/internal/tools/release/release.sh "$(VERSION)" bin/release

.PHONY: rename
rename: ## give the module the path MODULE=example.org/you/weir, in imports, go.mod files and pages
	@[ -n "$(MODULE)" ] || { echo 'rename: set the new path: make rename MODULE=example.org/you/weir'; exit 1; }
	@$(GO) run ./cmd/internal/tools/rename $(MODULE)

.PHONY: answers
answers: ## check calls with the guards of Go, Python and TypeScript by stream, batch and request for T (5m) at RATE (2000) a second, beside kills of weir: no answer wrong, lost or doubled; ANSWERS=-group, or -real on Apache Kafka
	@npm ci --silent --no-audit --no-fund --prefix sink/guard/typescript
	cd $(E2E) && $(GO) run ./trial answers -for $(or $(T),5m) -rate $(or $(RATE),2000) $(ANSWERS)

.PHONY: switch heartbeats
switch: ## stop all calls by hand with guards of three languages and four real gateways, through kills, hand-overs and a partition; SWITCH=-real on Apache Kafka
	sink/check/gateways/install.sh $(GATEWAYS)
	@npm ci --silent --no-audit --no-fund --prefix sink/guard/typescript
	cd $(E2E) && $(GO) run ./trial switch -gateways $(CURDIR)/$(GATEWAYS) $(SWITCH)

heartbeats: ## what the heartbeats of 1,000 guards and receipts take of a core; HEARTBEATS=-tls by TLS
	cd $(E2E) && $(GO) run ./trial heartbeats $(HEARTBEATS)

.PHONY: siege soak
soak: ## run weir for T (1h) under kills, set clocks, a full disk, other limits and HOSTILE (8) senders, then a group whose broker goes away; bin/*.csv have the plots
	@mkdir -p bin
	$(GO) test -count=1 -timeout 0 -run '^TestSoak$$' -v ./cmd/internal/app -soak $(or $(T),1h) -hostile $(or $(HOSTILE),8) -soak-plot $(CURDIR)/bin/soak.csv
	cd $(E2E) && $(GO) run ./trial soak -for $(or $(T),1h) -plot $(CURDIR)/bin/soak-group.csv $(SOAK)

siege: ## hold weir under 32 hostile senders for T (1h) beside 500 honest events a second; bin/siege.csv has the plot
	@mkdir -p bin
	$(GO) test -count=1 -timeout 0 -run '^TestSoak$$' -v ./cmd/internal/app -soak $(or $(T),1h) -soak-calm -hostile $(or $(HOSTILE),32) -soak-plot $(CURDIR)/bin/siege.csv

mutants: ## plant each of a folder of faults and show what finds it
	$(GO) run ./cmd/internal/tools/mutants cmd/internal/simulate/testdata/mutants $(MUTANTS)

update: ## rewrite golden outcomes; commit only what you can explain
	$(GO) generate ./analyzer
	cd cmd/internal/tools/openapi && $(GO) run .
	cd cmd/internal/tools/dashboards && $(GO) run . $(CURDIR)/sink/prom/grafana/dashboards
	$(GO) test ./analyzer ./analyzer/limitfile ./events/... ./cmd/... -update
