#!/usr/bin/env bash
# Builds the peers that the benchmarks run against from the same pinned llama.cpp sources that Stemma uses, in llama.cpp's default
# configuration: llama-server, llama-bench and llama-batched-bench, in build/peers/bin. Takes some 10 minutes on two cores the first time.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
sources=${STEMMA_LLAMA_CPP_DIR:-$root/build/deps/llama.cpp}

# As GCC compiles llama.cpp's AMX kernels they crash: it leaves out writing the tiles' shapes, as nothing tells it that the
# processor reads them (pull request 26954 of llama.cpp). On machines with AMX the default is built with a line that tells it.
if grep -qw amx_int8 /proc/cpuinfo; then
  mended=$root/build/peers-source
  rm -rf "$mended"
  cp -al "$sources" "$mended" 2>/dev/null || cp -a "$sources" "$mended"
  kernels=ggml/src/ggml-cpu/amx/mmq.cpp
  rm "$mended/$kernels"
  sed 's/^    _tile_loadconfig(&tc);/    __asm__ volatile("" : : "r"(\&tc) : "memory");\n&/' "$sources/$kernels" > "$mended/$kernels"
  ! cmp -s "$sources/$kernels" "$mended/$kernels" || echo "peers.sh: $kernels is not as it was; is its crash mended?" >&2
  touch -r "$sources/$kernels" "$mended/$kernels"
  sources=$mended
fi

cmake -S "$sources" -B "$root/build/peers" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
  -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
  -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_HTML=OFF \
  -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=ON "$@" > "$root/build/peers-configure.log"
cmake --build "$root/build/peers" --target llama-server llama-bench llama-batched-bench
