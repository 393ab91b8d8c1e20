#!/usr/bin/env python3
"""How fast Stemma computes prompts and generates beside llama-bench and llama-batched-bench, on the same files.

Models: `qwen35` with random weights in each of --types, and SmolLM2 (Q4_1) if tools/setup.sh has
fetched it; or those of --model. Each round runs Stemma, llama.cpp as it is by default and llama.cpp
without repacked weights, in turns, so that what else the machine does meets all of them; the table
has medians of the rounds, and of each round's ratios. "best" is the faster of llama.cpp's two.

Every program computes a prompt of random tokens (pp512: tokens of it, logits of the last), or
generates token after token with logits but without sampling (tg64), after as many tokens as `depth`
says. "streams": as many sequences generate at once, each after a prompt of its own; tokens/s of all
together.

What generation reads, against what memory can do: bytes of the weights a second, over the reads of
memory a second that Stemma's threads do in the same round with as many bytes; "moved" adds keys,
values and states.

  bench/vs_llama_bench.py
  bench/vs_llama_bench.py --types q8_0 --prompts '' --depths '' --streams 1,2,4,8,16
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from models import SMOLLM2, synthetic
from report import print_setting, print_table
from servers import ROOT

DEFAULT, NO_REPACK = "llama.cpp", "llama.cpp, no repacking"


def numbers(text):
    return [int(part) for part in text.split(",") if part]


def joined(values):
    return ",".join(map(str, values))


def output_of(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
    return done.stdout


class Round:
    """One run of every program on one model: tokens/s by (program, test), and what Stemma says of memory."""

    def __init__(self, args, model):
        self.args, self.model = args, str(model)
        self.speed = {}
        self.memory, self.weights, self.step_bytes = [], 0, {}

    def run(self, program):
        # At depth 0 prompts and generation, deeper generation only.
        plans = [(self.args.prompts if depth == 0 else [], [self.args.generate], depth)
                 for depth in self.args.depths]
        if 0 not in self.args.depths and self.args.prompts:
            plans.insert(0, (self.args.prompts, [], 0))
        for prompts, generate, depth in plans:
            if program == "stemma":
                self.run_stemma(prompts, generate, depth, [1])
            else:
                self.run_llama_bench(program, prompts, generate, depth)
        if self.args.streams:
            if program == "stemma":
                self.run_stemma([], [self.args.generate], self.args.stream_depth, self.args.streams)
            else:
                self.run_llama_batched_bench(program)

    def run_stemma(self, prompts, generate, depth, streams):
        report = json.loads(output_of(
            [self.args.stemma, "bench", "-m", self.model, "-t", self.args.threads,
             "-r", self.args.repetitions, "--json", "-p", joined(prompts or [0]),
             "-n", joined(generate or [0]), "-d", depth, "--streams", joined(streams)]))
        self.memory += report["memory_bytes_per_second"]
        self.weights = report["weight_bytes_per_step"]
        for test in report["tests"]:
            key = (test["test"], test["depth"], test["streams"])
            self.speed["stemma", key] = test["tokens_per_second"]
            if "bytes_per_step" in test:
                self.step_bytes[key] = test["bytes_per_step"]

    def run_llama_bench(self, program, prompts, generate, depth):
        tests = json.loads(output_of(
            [self.args.peers / "llama-bench", "-m", self.model, "-t", self.args.threads,
             "-r", self.args.repetitions, "-p", joined(prompts or [0]), "-n", joined(generate or [0]),
             "-d", depth, "-o", "json", *(["--repack", "0"] if program == NO_REPACK else [])]))
        for test in tests:
            name = f"pp{test['n_prompt']}" if test["n_prompt"] else f"tg{test['n_gen']}"
            self.speed[program, (name, test["n_depth"], 1)] = statistics.median(test["samples_ts"])

    def run_llama_batched_bench(self, program):
        depth, generate, most = self.args.stream_depth, self.args.generate, max(self.args.streams)
        printed = output_of(
            [self.args.peers / "llama-batched-bench", "-m", self.model, "-t", self.args.threads,
             "-c", most * (depth + generate), "-npp", depth, "-ntg", generate,
             "-npl", joined(self.args.streams), "--output-format", "jsonl",
             *(["--no-repack"] if program == NO_REPACK else [])])
        for line in printed.splitlines():
            if line.startswith("{"):
                test = json.loads(line)
                self.speed[program, (f"tg{generate}", depth, test["pl"])] = test["speed_tg"]


def compare(rounds, programs):
    """Rows of both tables for one model: speeds, and generation beside memory."""
    speeds, reads = [], []
    for key in dict.fromkeys(key for _, key in rounds[0].speed):
        name, depth, streams = key
        median = {program: statistics.median(r.speed[program, key] for r in rounds) for program in programs}
        row = [name, depth, streams, *(median[program] for program in programs)]
        if len(programs) > 1:
            peers = [program for program in programs if program != "stemma"]
            best = max(peers, key=median.get)
            for peer in (peers[0], best):
                ratios = [r.speed["stemma", key] / r.speed[peer, key] for r in rounds]
                row.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        speeds.append(row)
        if name.startswith("tg"):
            row = [name, depth, streams, statistics.median(statistics.median(r.memory) for r in rounds) / 1e9]
            for program in programs:
                steps = [r.speed[program, key] / streams / statistics.median(r.memory) for r in rounds]
                row.append(percent(step * r.weights for step, r in zip(steps, rounds)))
                row.append(percent(step * r.step_bytes[key] for step, r in zip(steps, rounds)))
            reads.append(row)
    return speeds, reads


def percent(shares):
    return f"{100 * statistics.median(shares):.0f} %"


def models_of(args):
    if args.model:
        return args.model
    made = [synthetic(args.stemma, args.preset, weight_type) for weight_type in args.types]
    return made + ([SMOLLM2] if SMOLLM2.exists() else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append",
                        help="a GGUF file instead of those below; may be given several times")
    parser.add_argument("--types", type=lambda text: text.split(","), default="q8_0,q4_k_m,f16,bf16")
    parser.add_argument("--preset", default="0.8b", help="of the random models")
    parser.add_argument("--prompts", type=numbers, default="128,512,2048", help="at depth 0; '' for none")
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--depths", type=numbers, default="0,4096", help="of generation; '' for none")
    parser.add_argument("--streams", type=numbers, default="",
                        help="sequences that generate at once, e.g. 1,2,4,8,16")
    parser.add_argument("--stream-depth", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=1,
                        help="of each test in a round, after one that does not count")
    parser.add_argument("--stemma", default=str(ROOT / "build/release/stemma"))
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers/bin",
                        help="folder of llama.cpp's programs")
    args = parser.parse_args()

    programs = ["stemma"]
    if (args.peers / "llama-bench").exists():
        programs += [DEFAULT, NO_REPACK]
    else:
        print(f"no llama-bench in {args.peers} (bench/peers.sh builds it): Stemma alone",
              file=sys.stderr)
    print_setting(args.stemma, args.peers / "llama-bench" if len(programs) > 1 else None)
    for model in models_of(args):
        rounds = []
        for number in range(args.rounds):
            rounds.append(Round(args, model))
            # Each round begins with another program.
            for program in programs[number % len(programs):] + programs[:number % len(programs)]:
                rounds[-1].run(program)
                print(f"{Path(model).name}: round {number + 1} of {args.rounds}: {program} done",
                      file=sys.stderr)
        speeds, reads = compare(rounds, programs)
        print(f"{Path(model).name}, {args.threads} threads, tokens/s, "
              f"medians of {args.rounds} rounds\n")
        ratios = ["Stemma / default", "Stemma / best"] if len(programs) > 1 else []
        print_table(["test", "depth", "streams", *programs, *ratios], speeds)
        if reads:
            print(f"\nreads of memory, {rounds[0].weights / 1e6:.0f} MB of weights a step\n")
            shares = [f"{program}, {what}" for program in programs for what in ("weights", "moved")]
            print_table(["test", "depth", "streams", "memory GB/s", *shares], reads)
        print(flush=True)


if __name__ == "__main__":
    main()
