#!/usr/bin/env bash
# tools/build.sh PRESET [TARGET...]: configures build/PRESET if that has not been done, and builds (all if no target is
# named). STEMMA_LLAMA_CPP_DIR names a llama.cpp source tree to use instead of the pinned one.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift

if [[ ! -f build/$preset/build.ninja ]]; then
  cmake --preset "$preset" ${STEMMA_LLAMA_CPP_DIR:+-DSTEMMA_LLAMA_CPP_DIR="$STEMMA_LLAMA_CPP_DIR"} >&2
fi
exec cmake --build "build/$preset" ${*:+--target "$@"} >&2
