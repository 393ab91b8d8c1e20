#!/usr/bin/env python3
"""Does an answer change when only the chunk size does? And what does a repeated prompt reuse?

Starts each server twice, with prompts computed in chunks of 512 and of 37 tokens, asks for greedy continuations of the same random
prompts, and counts the answers that differ. Then asks each prompt again and counts the tokens that are computed again.

  bench/exactness.py --model models/stemma-tiny.gguf
"""

import argparse
import os
import random
import sys

from branching import ROOT, Server, free_port


def commands(args, chunk):
    """Name -> (command, path, fields of the request)."""
    threads = str(args.threads)
    found = {
        "stemma": ([args.stemma, "serve", "-m", args.model, "--port", str(free_port()), "--threads", threads,
                    "--chunked-prefill-size", str(chunk)], "/v1/completions", {"return_token_ids": True}),
        "llama-server": ([args.llama_server, "-m", args.model, "--host", "127.0.0.1", "--port", str(free_port()),
                          "-t", threads, "-np", "1", "-c", "4096", "-b", str(chunk), "-ub", str(chunk)],
                         "/completion", {"return_tokens": True}),
    }
    if not os.access(args.llama_server, os.X_OK):
        print(f"no llama-server at {args.llama_server} (bench/peers.sh builds it): Stemma alone", file=sys.stderr)
        del found["llama-server"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--stemma", default=str(ROOT / "build/release/stemma"))
    parser.add_argument("--llama-server", default=str(ROOT / "build/peers/bin/llama-server"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--length", type=int, default=600)
    parser.add_argument("--output", type=int, default=64)
    args = parser.parse_args()

    logs = ROOT / "build" / "bench"
    logs.mkdir(parents=True, exist_ok=True)
    prompts, answers, again = [], {}, {}
    for chunk in (512, 37):
        for name, (command, path, fields) in commands(args, chunk).items():
            server = Server(name, command, path, fields, logs / f"{name}.log")
            try:
                if not prompts:
                    draw, size = random.Random(1), server.vocabulary()
                    prompts = [[draw.randrange(size // 8, size // 2) for _ in range(args.length)]
                               for _ in range(args.prompts)]
                answers[name, chunk] = [server.complete(prompt, args.output)[2] for prompt in prompts]
                again[name] = [len(prompt) - server.complete(prompt, 1)[1] for prompt in prompts[-1:] * 2]
            finally:
                server.stop()

    print("| server | greedy answers that differ between chunks of 512 and 37 | prompt asked again: tokens computed |")
    print("|---|---|---|")
    for name in again:
        differ = sum(a != b for a, b in zip(answers[name, 512], answers[name, 37]))
        print(f"| {name} | {differ} of {len(prompts)} | {again[name][-1]} |")


if __name__ == "__main__":
    main()
