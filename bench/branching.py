#!/usr/bin/env python3
"""A branching agent load: how much of it each server reuses, and how soon it answers.

A shared system prompt (2,048 tokens), 12 agents with 3 turns each, half of the turns retried with
another tail; 4 agents at a time. Prompts are token ids, so the ideal is known exactly: an infinite
token-exact cache with room for all would reuse the longest prefix that any earlier request (its
prompt, and its output once that is known) shares with this one, at most all but the last token.

Runs Stemma and, if it is there, llama-server (bench/peers.sh builds it) on the same file with the
same threads and cache memory, one after the other, `--runs` times alternating, and prints a table of
medians.

  bench/branching.py --model models/stemma-tiny.gguf
"""

import argparse
import contextlib
import queue
import statistics
import sys
import threading
import time
from pathlib import Path

from report import print_table
from servers import RandomTokens, add_arguments, starters


class Load:
    """The conversations, the same for every server: only the servers' outputs are woven in as they come."""

    def __init__(self, seed, vocabulary, system_tokens, agents, turns, user_tokens):
        tokens = RandomTokens(seed, vocabulary)
        self.system = tokens.draw(system_tokens)
        # Per agent and turn: a user message, and for half of the turns a second version that shares its first half.
        self.agents = []
        for _ in range(agents):
            plan = []
            for _ in range(turns):
                message = tokens.draw(user_tokens)
                retry = message[: user_tokens // 2] + tokens.draw(user_tokens // 2)
                plan.append((message, retry if tokens.random.random() < 0.5 else None))
            self.agents.append(plan)


class IdealCache:
    """An infinite token-exact prefix cache: a trie over everything that was sent or came back."""

    def __init__(self):
        self.root = {}
        self.lock = threading.Lock()

    def visit(self, tokens):
        """Longest known prefix, at most all but the last token; knows `tokens` from now on."""
        with self.lock:
            node, matched, known = self.root, 0, True
            for token in tokens:
                known = known and token in node
                matched += known
                node = node.setdefault(token, {})
            return min(matched, len(tokens) - 1)


def run_load(server, load, args):
    ideal, results, lock = IdealCache(), [], threading.Lock()

    def ask(tokens):
        possible = ideal.visit(tokens)
        done = server.complete(tokens, args.output)
        ideal.visit(tokens + done.output)
        with lock:
            results.append((len(tokens), possible, done.cached, done.first))
        return done.output

    def agent(plan):
        history = list(load.system)
        for message, retry in plan:
            output = ask(history + message)
            if retry is not None:
                message, output = retry, ask(history + retry)
            history += message + output

    work = queue.SimpleQueue()
    for plan in load.agents:
        work.put(plan)

    def worker():
        with contextlib.suppress(queue.Empty):
            while True:
                agent(work.get_nowait())

    begin = time.perf_counter()
    threads = [threading.Thread(target=worker) for _ in range(args.concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - begin
    prompt, possible, cached, _ = (sum(column) for column in zip(*results))
    first = sorted(row[3] for row in results)
    return {
        "requests": len(results),
        "prompt tokens": prompt,
        "ideal": possible,
        "cached": cached,
        "cached/ideal": cached / possible,
        "TTFT p50 s": statistics.median(first),
        "TTFT p90 s": first[int(0.9 * (len(first) - 1))],
        "wall s": wall,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--vocabulary", type=int, help="tokens to draw from; default: what the server says")
    parser.add_argument("--memory", type=int, default=4096, help="cache memory of each server, MiB")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--system", type=int, default=2048)
    parser.add_argument("--agents", type=int, default=12)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--user", type=int, default=120, help="tokens of a user message")
    parser.add_argument("--output", type=int, default=32)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    found = starters(args,
                     ["--cache-memory", f"{args.memory}MiB", "--context-length", str(args.context)],
                     ["-np", str(args.concurrency), "-c", str(args.context * args.concurrency),
                      "--cache-ram", str(args.memory)])
    rows = {}
    vocabulary = args.vocabulary
    for run in range(args.runs):
        for name, start in found.items():
            server = start()
            try:
                if vocabulary is None:
                    vocabulary = server.vocabulary()
                load = Load(args.seed + run, vocabulary, args.system, args.agents, args.turns, args.user)
                rows.setdefault(name, []).append(run_load(server, load, args))
            finally:
                server.stop()
            print(f"run {run + 1} of {args.runs}: {name} done", file=sys.stderr)

    print(f"{Path(args.model).name}, {args.threads} threads, {args.memory} MiB of cache, {args.agents} agents x {args.turns} turns, "
          f"system prompt {args.system}, concurrency {args.concurrency}; medians of {args.runs} runs")
    columns = list(next(iter(rows.values()))[0])
    print_table(["server", *columns],
                [[name, *(statistics.median(run[column] for run in runs) for column in columns)]
                 for name, runs in rows.items()])
    if len(rows) == 2:
        for column in ("TTFT p50 s", "wall s"):
            ratios = [s[column] / p[column] for s, p in zip(rows["stemma"], rows["llama-server"])]
            print(f"stemma / llama-server, {column}: {statistics.median(ratios):.3f} "
                  f"({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
