# The two commands of the README are `make demo` and `make check`.
.DEFAULT_GOAL := help
GO ?= go
STATICCHECK = $(GO) tool -modfile=cmd/internal/tools/staticcheck/go.mod staticcheck
FUZZTIME ?= 5s

.PHONY: help demo check build test race lint fuzz bench crash update

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## stop real runaways on the screen: no Kafka, no Docker, nothing installed
	@# Without optimisation a cold build takes two thirds of the time, and this is a first look.
	@$(GO) run -gcflags=all='-N -l' ./cmd/weir demo --once

check: lint race fuzz crash ## set up what tests need and pass all of them
	@echo "check: all passed"

build: ## bin/weir
	$(GO) build -trimpath -o bin/weir ./cmd/weir

test: ## unit and scenario tests
	$(GO) test ./...

race: ## the same with the race detector
	$(GO) test -race -timeout 30m ./...

lint: ## format, vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt: $$out"; exit 1; }
	$(GO) vet ./...
	$(STATICCHECK) ./...

fuzz: ## every fuzz target for FUZZTIME (5s)
	@for p in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "fuzz $$p $$f"; \
	    $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p || exit 1; \
	  done; \
	done

bench: ## ns per event for decode, fold, encode and the whole embedded path
	$(GO) test -run '^$$' -bench . -benchmem ./events ./analyzer ./state ./cmd/internal/app

crash: ## kill -9 `weir run` under load at KILLS moments (50) and compare with an undisturbed replay
	$(GO) test -count=1 -run TestKill -v ./cmd/weir -kills $(or $(KILLS),50)

update: ## rewrite golden outcomes; commit only what you can explain
	$(GO) test ./analyzer ./events/... ./cmd/... -update
