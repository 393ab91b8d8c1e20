#!/usr/bin/env bash
# Builds the peers that the benchmarks run against from the same pinned llama.cpp sources that Stemma uses, in llama.cpp's default
# configuration: llama-server, llama-bench and llama-batched-bench, in build/peers/bin. Takes some 10 minutes on two cores the first time.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
sources=${STEMMA_LLAMA_CPP_DIR:-$root/build/deps/llama.cpp}
cmake -S "$sources" -B "$root/build/peers" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
  -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
  -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_HTML=OFF \
  -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=ON "$@" > "$root/build/peers-configure.log"
cmake --build "$root/build/peers" --target llama-server llama-bench llama-batched-bench
