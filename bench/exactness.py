#!/usr/bin/env python3
"""Does an answer change when only the chunk size does? And what does a repeated prompt reuse?

Starts each server twice, with prompts computed in chunks of 512 and of 37 tokens, asks for greedy continuations of the same random
prompts, and counts the answers that differ. Then asks each prompt again and counts the tokens that are computed again.

  bench/exactness.py --model models/stemma-tiny.gguf
"""

import argparse

from report import print_table
from servers import RandomTokens, add_arguments, starters


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--length", type=int, default=600)
    parser.add_argument("--output", type=int, default=64)
    args = parser.parse_args()

    prompts, answers, again = [], {}, {}
    for chunk in (512, 37):
        found = starters(args, ["--chunked-prefill-size", str(chunk)],
                         ["-np", "1", "-c", "4096", "-b", str(chunk), "-ub", str(chunk)])
        for name, start in found.items():
            server = start()
            try:
                if not prompts:
                    tokens = RandomTokens(1, server.vocabulary())
                    prompts = [tokens.draw(args.length) for _ in range(args.prompts)]
                answers[name, chunk] = [server.complete(prompt, args.output).output for prompt in prompts]
                again[name] = [len(prompt) - server.complete(prompt, 1).cached for prompt in prompts[-1:] * 2]
            finally:
                server.stop()

    rows = []
    for name in again:
        differ = sum(a != b for a, b in zip(answers[name, 512], answers[name, 37]))
        rows.append([name, f"{differ} of {len(prompts)}", again[name][-1]])
    print_table(["server", "greedy answers that differ between chunks of 512 and 37",
                 "prompt asked again: tokens computed"], rows)


if __name__ == "__main__":
    main()
