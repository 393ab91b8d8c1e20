"""What would break a server that is less careful: prompts of megabytes, a full context, slow steps, more clients than descriptors."""

import asyncio
import json
import random
import resource
import urllib.error

import pytest

from conftest import Server
from raw_http import Client


def code_of(server, path, body):
    with pytest.raises(urllib.error.HTTPError) as raised:
        server.post(path, body)
    error = json.loads(raised.value.read())["error"]
    assert 400 <= raised.value.code < 500, error
    return error["code"]


def test_prompts_of_ten_megabytes(server):
    before = server.post("/v1/completions", {"prompt": "Once", "max_tokens": 8, "temperature": 0})
    generator = random.Random(0)
    size = 10 << 20
    texts = {
        "words": "it was a dark and stormy night " * (size // 31),
        "lines": "\n" * size,
        "noise": "".join(chr(generator.randrange(0x20, 0xd7ff)) for _ in range(size // 3)),
        "control tokens": "<|im_start|>" * (size // 12),
    }
    for name, text in texts.items():
        assert code_of(server, "/v1/completions", {"prompt": text}) == "request_prompt_too_long", name
    messages = [{"role": "user", "content": texts["words"]}]
    assert code_of(server, "/v1/chat/completions", {"messages": messages}) == "request_prompt_too_long"
    after = server.post("/v1/completions", {"prompt": "Once", "max_tokens": 8, "temperature": 0})
    assert after["choices"] == before["choices"]


def test_the_contexts_end(server):
    context = server.info()["context_length"]
    full = [1000 + i % 1000 for i in range(context)]
    assert code_of(server, "/v1/completions", {"prompt": full, "max_tokens": 1}) == "request_prompt_too_long"
    answer = server.post("/v1/completions", {"prompt": full[1:], "max_tokens": 100, "ignore_eos": True})
    assert answer["usage"]["completion_tokens"] == 1
    assert answer["choices"][0]["finish_reason"] == "length"


def test_a_slow_step_is_reported_and_goes_on(server, tmp_path):
    with (tmp_path / "log").open("w+") as log:
        one = Server("--watchdog-timeout", "0.001", "--chunked-prefill-size", "2048", stderr=log)
        prompt = [100 + i % 3000 for i in range(2000)]
        one.post("/v1/completions", {"prompt": prompt, "max_tokens": 4})
        assert json.loads(one.get("/health")) == {"status": "ok"}
        assert one.stop() == 0
        log.seek(0)
        written = log.read()
    assert "[engine_step_stuck] step 1 with 2000 tokens of 1 sequences has run for 0.0" in written
    assert "step 1 ended after " in written


def limit_open_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))


async def connect(server, count):
    clients = [Client(server.port) for _ in range(count)]
    for client in clients:
        await client.connect()
    return clients


def test_more_clients_than_descriptors(server, tmp_path):
    with (tmp_path / "log").open("w+") as log:
        one = Server(stderr=log, preexec_fn=limit_open_files)
        some = asyncio.run(connect(one, 200))  # more than the soft limit
        while one.info()["server"]["connections"] < 201:
            pass
        more = asyncio.run(connect(one, 200))  # more than the hard one: these wait in the system
        for client in some:
            client.close()
        while one.info()["server"]["connections"] < 201:  # now they are served
            pass
        for client in more:
            client.close()
        assert one.stop() == 0
        log.seek(0)
        written = log.read()
    assert "300 open files" in written
    assert written.count("cannot accept connections") < 10  # and not once a try
