#!/usr/bin/env python3
"""Parallel streams at Stemma's server and at llama-server: how soon they begin, how fast they run, how long they stall.

First 1, 2, 4, 8 and 16 clients at once, each with a prompt of its own (nothing to reuse) and the
same number of tokens to generate. TTFT is the time from a request to its first token; tokens/s are
all generated tokens over the time from the first request to the last token, prompts included; a step
is the time between two tokens of a client.

Then one long prompt (4,096 tokens) that arrives among 8 clients whose answers are running: the
longest step of any of the 8 until the prompt's own first token, over the median step before it came.

Both servers take their cache's memory from the system when they start (Stemma with --prefault) and
run on the same file with the same threads, one after the other, `--rounds` times in turns; the
tables have medians of the rounds.

  bench/vs_llama_server.py
"""

import argparse
import statistics
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from models import synthetic
from report import print_setting, print_table
from servers import RandomTokens, add_arguments, starters

MANY = 1 << 12  # tokens that a running answer may have; it ends when its client hangs up


def run_streams(server, tokens, streams, args):
    prompts = [tokens.draw(args.prompt) for _ in range(streams)]
    with ThreadPoolExecutor(streams) as pool:
        done = list(pool.map(lambda prompt: server.complete(prompt, args.output), prompts))
    begin = min(completion.sent for completion in done)
    end = max(completion.arrivals[-1][0] for completion in done)
    first = [completion.first for completion in done]
    return {
        "TTFT p50 s": statistics.median(first),
        "TTFT max s": max(first),
        "tokens/s": streams * args.output / (end - begin),
        "step p50 ms": 1000 * statistics.median(gap for each in done for _, gap in each.gaps()),
    }


class LongPrompt:
    """Answers that run, and a long prompt that comes among them once each has its first tokens."""

    def __init__(self, server, tokens, args):
        self.server, self.args = server, args
        self.prompts = [tokens.draw(args.prompt) for _ in range(args.running)]
        self.long_prompt = tokens.draw(args.long_prompt)
        self.waiting = args.running  # answers that have not run long enough
        self.lock = threading.Lock()
        self.all_run, self.over = threading.Event(), threading.Event()

    def answer(self, prompt):
        counted = False

        def watch(completion):
            nonlocal counted
            if not counted and len(completion.arrivals) > self.args.steps_before:
                counted = True
                with self.lock:
                    self.waiting -= 1
                    if self.waiting == 0:
                        self.all_run.set()
            return not self.over.is_set()

        try:
            return self.server.complete(prompt, MANY, watch)
        finally:
            self.all_run.set()  # also if it failed

    def run(self):
        with ThreadPoolExecutor(self.args.running) as pool:
            answers = [pool.submit(self.answer, prompt) for prompt in self.prompts]
            self.all_run.wait()
            long = self.server.complete(self.long_prompt, 1)
            self.over.set()
            running = [answer.result() for answer in answers]
        ended = long.sent + long.first
        before, during = [], []
        for completion in running:
            for end, gap in completion.gaps():
                if end < long.sent:
                    before.append(gap)
                elif end - gap < ended:
                    during.append(gap)
        step = statistics.median(before)
        return {
            "median step before ms": 1000 * step,
            "median step during ms": 1000 * statistics.median(during),
            "longest step ms": 1000 * max(during),
            "longest / median before": max(during) / step,
            "long prompt's TTFT s": long.first,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, model_required=False)
    parser.add_argument("--preset", default="0.8b", help="without --model: of the random qwen35")
    parser.add_argument("--type", default="q8_0", help="without --model: of the random qwen35")
    parser.add_argument("--streams", type=lambda text: [int(part) for part in text.split(",")],
                        default="1,2,4,8,16")
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--output", type=int, default=64)
    parser.add_argument("--long-prompt", type=int, default=4096)
    parser.add_argument("--running", type=int, default=8,
                        help="answers that the long prompt comes among")
    parser.add_argument("--steps-before", type=int, default=24,
                        help="tokens of each of them before it comes")
    parser.add_argument("--memory", type=int, default=4096, help="cache memory of each server, MiB")
    parser.add_argument("--no-repack", action="store_true",
                        help="llama-server without repacked weights, which is faster for some types")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    args.model = args.model or str(synthetic(args.stemma, args.preset, args.type))

    slots = max([*args.streams, args.running + 1])
    context = args.long_prompt + args.prompt + args.output + 64
    found = starters(args,
                     ["--max-running-requests", str(slots), "--context-length", str(context),
                      "--cache-memory", f"{args.memory}MiB", "--prefault"],
                     ["-np", str(slots), "-c", str(slots * context), "--cache-ram", str(args.memory),
                      *(["--no-repack"] if args.no_repack else [])])
    print_setting(args.stemma, args.llama_server if len(found) > 1 else None)
    vocabulary, streams, long_prompts = None, {}, {}
    for number in range(args.rounds):
        # Each round begins with the other server.
        for name, start in list(found.items())[:: -1 if number % 2 else 1]:
            server = start()
            try:
                vocabulary = vocabulary or server.vocabulary()
                tokens = RandomTokens(number, vocabulary)
                server.complete(tokens.draw(args.prompt), 4)  # does not count
                for count in args.streams:
                    streams.setdefault((count, name), []).append(run_streams(server, tokens, count, args))
                long_prompts.setdefault(name, []).append(LongPrompt(server, tokens, args).run())
            finally:
                server.stop()
            print(f"round {number + 1} of {args.rounds}: {name} done", file=sys.stderr)

    print(f"{Path(args.model).name}, {args.threads} threads, prompts of {args.prompt} tokens, "
          f"{args.output} generated; medians of {args.rounds} rounds\n")
    print_medians(["streams", "server"],
                  [[[count, name], streams[count, name]] for count in args.streams for name in found])
    print(f"\na prompt of {args.long_prompt} tokens among {args.running} answers\n")
    print_medians(["server"], [[[name], long_prompts[name]] for name in found])


def print_medians(heads, rows):
    columns = list(rows[0][1][0])
    print_table(heads + columns,
                [names + [statistics.median(run[column] for run in runs) for column in columns]
                 for names, runs in rows])


if __name__ == "__main__":
    main()
