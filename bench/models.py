"""Models that the benchmarks run on when nobody names a file."""

import subprocess

from servers import ROOT

VOCABULARY = ROOT / "build/deps/llama.cpp/models/ggml-vocab-qwen35.gguf"
SMOLLM2 = ROOT / "build/deps/smollm2.gguf"  # tools/setup.sh tests


def synthetic(stemma, preset, weight_type):
    """A `qwen35` with random weights in build/bench, made when it is not there."""
    path = ROOT / "build" / "bench" / f"qwen35-{preset}-{weight_type}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([stemma, "make-model", "--arch", "qwen35", "--preset", preset, "--type", weight_type,
                        "--vocab", VOCABULARY, "-o", path], check=True, stdout=subprocess.DEVNULL)
    return path
