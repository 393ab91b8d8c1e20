#!/bin/sh
# Makes models/stemma-tiny.gguf from nothing but Debian and PyPI packages.
#
#     train.sh [WORK_FOLDER [MINUTES [PROCESSES [START.gguf]]]]       default: build/train 95 1
#
# Needs Debian 12 or newer with a C++ compiler, python3 with venv, and root or sudo where packages are missing.
# Interrupted, it goes on from the last checkpoint when run again with the same folder.
# With START.gguf, a file that it made before, training begins from that file's weights.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=${1:-$root/build/train}
minutes=${2:-95}
processes=${3:-1}
start=${4:-}
mkdir -p "$work"

missing=$(for package in r-cran-janeaustenr sword-text-web python3-venv g++; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
done)
if [ -n "$missing" ]; then
    as_root=$([ "$(id -u)" -eq 0 ] || echo sudo)
    # shellcheck disable=SC2086  # both are lists of words
    $as_root apt-get install -y --no-install-recommends $missing
fi

python=$work/venv/bin/python
[ -x "$python" ] || python3 -m venv "$work/venv"
"$python" -m pip install -q -r "$here/requirements.txt"
sdist=$work/sentencepiece-0.2.3.tar.gz
[ -f "$sdist" ] || "$python" -m pip download -q --no-deps --no-binary :all: -d "$work" sentencepiece==0.2.3

"$python" "$here/model.py"
[ -f "$work/corpus.jsonl" ] || "$python" "$here/corpus.py" --sentencepiece "$sdist" --out "$work/corpus.jsonl"
"$python" "$here/train.py" --corpus "$work/corpus.jsonl" --out "$work/run" --minutes "$minutes" --workers "$processes" \
    ${start:+--start "$start" --peak 0.7}
"$python" "$here/export_gguf.py" --run "$work/run" --out "$root/models/stemma-tiny.gguf"
"$python" "$here/sample.py" --run "$work/run" "It was a fine morning, and"
