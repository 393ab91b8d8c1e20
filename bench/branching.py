#!/usr/bin/env python3
"""A branching agent load: how much of it each server reuses, and how soon it answers.

A shared system prompt (2,048 tokens), 12 agents with 3 turns each, half of the turns retried with another tail; 4 agents at a
time. Prompts are token ids, so the ideal is known exactly: an infinite token-exact cache with room for all would reuse the longest prefix that any
earlier request (its prompt, and its output once that is known) shares with this one, at most all but the last token.

Runs Stemma and, if it is there, llama-server (bench/peers.sh builds it) on the same file with the same threads and cache memory, one after
the other, `--runs` times alternating, and prints a table of medians.

  bench/branching.py --model models/stemma-tiny.gguf
"""

import argparse
import contextlib
import http.client
import json
import os
import queue
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Load:
    """The conversations, the same for every server: only the servers' outputs are woven in as they come."""

    def __init__(self, seed, vocabulary, system_tokens, agents, turns, user_tokens):
        self.random = random.Random(seed)
        self.vocabulary = vocabulary
        self.system = self.tokens(system_tokens)
        # Per agent and turn: a user message, and for half of the turns a second version that shares its first half.
        self.agents = []
        for _ in range(agents):
            plan = []
            for _ in range(turns):
                message = self.tokens(user_tokens)
                retry = message[: user_tokens // 2] + self.tokens(user_tokens // 2)
                plan.append((message, retry if self.random.random() < 0.5 else None))
            self.agents.append(plan)

    def tokens(self, count):
        # Control tokens live at the ends of vocabularies; the middle is text.
        return [self.random.randrange(self.vocabulary // 8, self.vocabulary // 2) for _ in range(count)]


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


class Server:
    def __init__(self, name, command, path, fields, log):
        self.name, self.path, self.fields = name, path, fields
        self.log = open(log, "w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.port = int(command[command.index("--port") + 1])
        deadline = time.time() + 300
        while not self.healthy():
            if self.process.poll() is not None or time.time() > deadline:
                sys.exit(f"{name} did not start; see {log}")
            time.sleep(0.1)

    def healthy(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        return False

    def vocabulary(self):
        """Tokens of the model; Stemma says, llama-server does not."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/server_info")
        return json.load(connection.getresponse())["model"]["vocabulary"]

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()

    def complete(self, tokens, count):
        """One streamed completion: (seconds to the first token, cached tokens, generated ids)."""
        body = {"prompt": tokens, "stream": True, "temperature": 0, "ignore_eos": True, "cache_prompt": True}
        body |= {field: count for field in ("n_predict", "max_tokens")} | self.fields
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        begin = time.perf_counter()
        connection.request("POST", self.path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            sys.exit(f"{self.name}: {response.status} {response.read()[:500]}")
        first, cached, output = None, None, []
        for line in response:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[6:])
            first = first or time.perf_counter() - begin
            choice = (event.get("choices") or [{}])[0]
            output += event.get("tokens") or choice.get("token_ids") or []
            if "timings" in event:
                cached = event["timings"]["cache_n"]
        connection.close()
        return first, cached, output


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_load(server, load, args):
    ideal, results, lock = IdealCache(), [], threading.Lock()

    def ask(tokens):
        possible = ideal.visit(tokens)
        first, cached, output = server.complete(tokens, args.output)
        ideal.visit(tokens + output)
        with lock:
            results.append((len(tokens), possible, cached, first))
        return output

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


def servers(args):
    """Name -> how to start it."""

    def stemma(log):
        command = [args.stemma, "serve", "-m", args.model, "--port", str(free_port()), "--threads", str(args.threads),
                   "--cache-memory", f"{args.memory}MiB", "--context-length", str(args.context)]
        return Server("stemma", command, "/v1/completions", {"return_token_ids": True}, log)

    def llama(log):
        command = [args.llama_server, "-m", args.model, "--host", "127.0.0.1", "--port", str(free_port()),
                   "-t", str(args.threads), "-np", str(args.concurrency), "-c", str(args.context * args.concurrency),
                   "--cache-ram", str(args.memory), "--no-webui"]
        return Server("llama-server", command, "/completion", {"return_tokens": True}, log)

    found = {"stemma": stemma}
    if os.access(args.llama_server, os.X_OK):
        found["llama-server"] = llama
    else:
        print(f"no llama-server at {args.llama_server} (bench/peers.sh builds it): Stemma alone", file=sys.stderr)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--vocabulary", type=int, help="tokens to draw from; default: what the server says")
    parser.add_argument("--stemma", default=str(ROOT / "build/release/stemma"))
    parser.add_argument("--llama-server", default=str(ROOT / "build/peers/bin/llama-server"))
    parser.add_argument("--threads", type=int, default=2)
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

    logs = ROOT / "build" / "bench"
    logs.mkdir(parents=True, exist_ok=True)
    found, rows = servers(args), {}
    vocabulary = args.vocabulary
    for run in range(args.runs):
        for name, start in found.items():
            server = start(logs / f"{name}.log")
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
    print("| server | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, runs in rows.items():
        cells = [statistics.median(run[column] for run in runs) for column in columns]
        print(f"| {name} | " + " | ".join(f"{x:.3f}" if isinstance(x, float) else str(x) for x in cells) + " |")
    if len(rows) == 2:
        for column in ("TTFT p50 s", "wall s"):
            ratios = [s[column] / p[column] for s, p in zip(rows["stemma"], rows["llama-server"])]
            print(f"stemma / llama-server, {column}: {statistics.median(ratios):.3f} "
                  f"({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
