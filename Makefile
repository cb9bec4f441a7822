# Every target works on a bare Debian 12 with Rust and Go; `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help demo test bench install docs fuzz lint release

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | awk -F '\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'
	@printf '  make %-12s %s\n' test-NAME "the part of the tests that belongs to one backend: make test-local"

demo: ## from nothing to a working proxy through terraform apply, a request through it, destroy
	@scripts/demo

test: ## everything that is tested, with a closing line: N passed, N failed, N skipped
	@scripts/test

test-%:
	@scripts/test $*

bench: ## what the provider costs, measured on a release build; writes bench.json
	@scripts/bench

install: ## put the provider where your own terraform or tofu finds it
	@scripts/install

docs: ## generate the argument tables of docs/ and the README from the schema, then check them
	@scripts/docs

fuzz: ## fuzz the decoders for FUZZ_SECONDS (60) each; needs a nightly compiler
	@scripts/fuzz

lint: ## what the machine can say about the code before the tests run
	@scripts/lint

release: ## the assets of a release in dist/: zips, manifest, SHA256SUMS
	@scripts/release
