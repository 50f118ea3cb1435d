# The README's two commands, and what CI adds. Each installs what it needs, builds, runs.
SHELL := /bin/bash
BUILD := build/release

.PHONY: demo test build check setup setup-checks clean help

help:  ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: build  ## Install, build, and run the main job on this machine (about 5 minutes after the build)
	$(BUILD)/hase demo $(ARGS)

test: setup-browser build  ## Install, build, and run the test suite
	ctest --test-dir $(BUILD) --output-on-failure -j 2 $(ARGS)

build: setup  ## Install what is missing and build
	cmake --preset release
	cmake --build --preset release

setup:  ## Debian packages and ONNX Runtime, nothing else
	tools/setup.sh
setup-browser:
	tools/setup.sh --browser
setup-checks:
	tools/setup.sh --browser --checks

check: setup-checks  ## What CI runs beside the tests: layers, format, tidy on changed files, sanitizers, fuzzing
	tools/check.sh

clean:  ## Remove build results (third_party/ stays)
	rm -rf build
