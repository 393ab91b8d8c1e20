"""What the benchmarks print beside their numbers: tables, and what they ran against."""

import re
import subprocess
from pathlib import Path


def print_table(columns, rows):
    """A Markdown table; floats with three digits or so."""
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    for row in rows:
        print("| " + " | ".join(written(cell) for cell in row) + " |")


def written(cell):
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.3f}"


def print_setting(stemma, peer=None):
    """The machine, Stemma's version, and version and build flags of a program of llama.cpp's."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", cpuinfo)
    flags = re.search(r"flags\s*: (.*)", cpuinfo)
    has = set(flags[1].split()) if flags else set()
    known = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8")
    cores = len(re.findall("^processor", cpuinfo, re.M))
    print(f"machine: {model[1] if model else 'unknown'}, {cores} cores, "
          f"{' '.join(flag for flag in known if flag in has)}")
    print("Stemma:  " + first_line([stemma, "--version"]))
    if peer:
        print(f"peer:    llama.cpp {llama_version(peer)}; {build_flags(peer)}")
    print()


def first_line(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return (done.stdout or done.stderr).splitlines()[0]


def llama_version(program):
    """Of the program's folder; the tools say it in their own ways, llama-server on request."""
    return first_line([Path(program).parent / "llama-server", "--version"]).removeprefix("version: ")


def build_flags(program):
    """The settings of the build that decide how it computes, from CMake's cache beside its programs."""
    cache = Path(program).resolve().parent.parent / "CMakeCache.txt"
    if not cache.exists():
        return "build flags unknown"
    settings = dict(re.findall(r"^(\w+):\w+=(.*)$", cache.read_text(), re.M))
    names = ("CMAKE_BUILD_TYPE", "GGML_NATIVE", "GGML_OPENMP", "GGML_LLAMAFILE", "GGML_CPU_REPACK",
             "GGML_BLAS")
    return " ".join(f"{name}={settings[name]}" for name in names if name in settings)
