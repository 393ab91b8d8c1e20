#!/usr/bin/env bash
# tools/test.sh PRESET [LABEL...]: builds a preset and runs its tests, or those with one of the labels, and the Python tests
# against the built binary: all in `release`, elsewhere the crowd of clients. The last line counts passed, failed and skipped
# tests.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift

labels=$(IFS='|' && echo "${*:-.}")  # a regular expression
tools/build.sh "$preset" ${*/#/tests_} ${*:+stemma}
results=build/$preset/test-results
rm -rf "$results"
mkdir -p "$results"

export STEMMA_SOURCE_DIR=$PWD
export STEMMA_BINARY=$PWD/build/$preset/stemma
export STEMMA_MODEL=$PWD/models/stemma-tiny.gguf
if [[ -f build/deps/smollm2.gguf ]]; then export STEMMA_SMOLLM2=$PWD/build/deps/smollm2.gguf; fi
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1

status=0
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "$(nproc)" \
  --output-junit "$PWD/$results/ctest.xml" --label-regex "$labels" </dev/null || status=1
python_tests=tests/e2e
[[ $preset == release ]] || python_tests=tests/e2e/test_clients.py
build/venv/bin/python -m pytest -q "$python_tests" --junitxml "$results/e2e.xml" </dev/null || status=1
python3 tools/count_tests.py "$results" || status=1
exit $status
