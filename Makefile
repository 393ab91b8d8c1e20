# make serve: from a fresh clone to a server with the bundled model on http://127.0.0.1:8080.
# Everything is set up by tools/setup.sh when it is missing and built under build/; a second run is ready in seconds.

MODEL ?= models/stemma-tiny.gguf
PORT ?= 8080
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup build serve test clean

help:
	@echo 'make build   set up what is missing and build build/release/stemma'
	@echo 'make serve   the same, then serve MODEL ($(MODEL)) on PORT ($(PORT)) until Ctrl-C;'
	@echo '             further options of `stemma serve` go in ARGS'
	@echo 'make test    set up, build and run all tests'
	@echo 'make clean   remove what was built (not what was fetched)'

setup:
	@tools/setup.sh

build: setup
	@tools/build.sh release stemma

serve: build
	@exec build/release/stemma serve --model $(MODEL) --port $(PORT) $(ARGS)

test:
	@tools/setup.sh tests
	@tools/test.sh release

clean:
	rm -rf build/release build/debug build/asan build/tsan build/fuzz
