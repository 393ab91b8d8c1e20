"""Servers that the benchmarks start, ask and stop: Stemma and llama-server, on the same file with the same threads."""

import contextlib
import dataclasses
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Completion:
    """One streamed completion as its client saw it. Times are of time.perf_counter."""

    sent: float
    arrivals: list = dataclasses.field(default_factory=list)  # (time, tokens so far) of each event with tokens
    output: list = dataclasses.field(default_factory=list)  # token ids
    cached: int = 0  # tokens of the prompt that were reused

    @property
    def first(self):
        """Seconds to the first token."""
        return self.arrivals[0][0] - self.sent

    def gaps(self):
        """(time at which it ends, seconds) of each token after the first event. An event that brings several tokens,
        because a character was not complete before, stands for as many equal gaps."""
        for (before, had), (now, has) in zip(self.arrivals, self.arrivals[1:]):
            for _ in range(has - had):
                yield now, (now - before) / (has - had)


class Server:
    """A running server; stop() ends it."""

    def __init__(self, name, command, path, fields):
        self.name, self.path, self.fields = name, path, fields
        folder = ROOT / "build" / "bench"
        folder.mkdir(parents=True, exist_ok=True)
        self.log = (folder / f"{name}.log").open("w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.port = int(command[command.index("--port") + 1])
        deadline = time.time() + 300
        while not self.healthy():
            if self.process.poll() is not None or time.time() > deadline:
                sys.exit(f"{name} did not start; see {self.log.name}")
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
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:  # llama-server can hang after clients that hung up
            print(f"{self.name} did not end when it was asked to", file=sys.stderr)
            self.process.kill()
            self.process.wait()
        self.log.close()

    def complete(self, tokens, count, watch=lambda completion: True):
        """Asks for `count` tokens after `tokens` and returns the Completion. `watch` is called with it after each
        event; when it returns False, the client hangs up."""
        body = {"prompt": tokens, "stream": True, "temperature": 0, "ignore_eos": True, "cache_prompt": True}
        body |= {field: count for field in ("n_predict", "max_tokens")} | self.fields
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        completion = Completion(time.perf_counter())
        connection.request("POST", self.path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            sys.exit(f"{self.name}: {response.status} {response.read()[:500]}")
        for line in response:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            now, event = time.perf_counter(), json.loads(line[6:])
            if "timings" in event:
                completion.cached = event["timings"]["cache_n"]
            choice = (event.get("choices") or [{}])[0]
            if ids := event.get("tokens") or choice.get("token_ids"):
                completion.output += ids
                # llama-server leaves out tokens that end inside a character, and counts them in its timings.
                so_far = event.get("timings", {}).get("predicted_n", len(completion.output))
                completion.arrivals.append((now, so_far))
            if not watch(completion):
                break
        response.close()
        connection.close()
        return completion


def add_arguments(parser, model_required=True):
    """Of a program that runs both servers."""
    parser.add_argument("--model", required=model_required)
    parser.add_argument("--stemma", default=str(ROOT / "build/release/stemma"))
    parser.add_argument("--llama-server", default=str(ROOT / "build/peers/bin/llama-server"))
    parser.add_argument("--threads", type=int, default=2)


def starters(args, stemma_options, llama_options):
    """Name -> a function that starts the server. llama-server only if it is there."""

    def stemma():
        command = [args.stemma, "serve", "-m", args.model, "--port", str(free_port()), "--threads", str(args.threads)]
        return Server("stemma", command + stemma_options, "/v1/completions", {"return_token_ids": True})

    def llama():
        command = [args.llama_server, "-m", args.model, "--host", "127.0.0.1", "--port", str(free_port()),
                   "-t", str(args.threads), "--no-webui"]
        return Server("llama-server", command + llama_options, "/completion",
                      {"return_tokens": True, "timings_per_token": True})

    found = {"stemma": stemma}
    if os.access(args.llama_server, os.X_OK):
        found["llama-server"] = llama
    else:
        print(f"no llama-server at {args.llama_server} (bench/peers.sh builds it): Stemma alone", file=sys.stderr)
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class RandomTokens:
    """Prompts of random token ids, the same for the same seed."""

    def __init__(self, seed, vocabulary):
        self.random, self.vocabulary = random.Random(seed), vocabulary

    def draw(self, count):
        # Control tokens live at the ends of vocabularies; the middle is text.
        return [self.random.randrange(self.vocabulary // 8, self.vocabulary // 2) for _ in range(count)]
