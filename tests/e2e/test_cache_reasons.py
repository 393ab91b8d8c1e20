"""Every reason why a prompt reuses what it does, provoked over HTTP: in the answer, in /v1/cache/explain and in the counters.

Not here: below_grid. The CPU's kernels store states at every depth; tests/cache/reasons_test.cpp provokes it with a grid.
Nor window_evicted: no model has layers with a sliding window; tests/cache/window_component_test.cpp provokes it.
"""

import random
import threading

import pytest

from conftest import Server

VOCABULARY = 4000
SMALL = ("--cache-memory", "1M", "--ctx-size", "512")  # of the bundled model: 2 rows and 32 pages at least


def text(seed, length):
    generator = random.Random(seed)
    return [generator.randrange(100, VOCABULARY) for _ in range(length)]


def complete(server, prompt, **fields):
    """The cache's report on a request."""
    body = {"prompt": prompt, "max_tokens": 1, "temperature": 0, "ignore_eos": True, "cache_report": True, **fields}
    answer = server.post("/v1/completions", body)
    cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    if isinstance(answer["cache"], dict):
        assert answer["cache"]["reused"] == cached <= answer["cache"]["matched"]
    return answer["cache"]


def explain(server, prompt, **fields):
    return server.post("/v1/cache/explain", {"prompt": prompt, **fields})


def counters(server):
    lines = (line.rsplit(" ", 1) for line in server.get("/metrics").splitlines() if line.startswith("stemma_cache_"))
    return {name: float(value) for name, value in lines}


def expect(server, prompt, reason, **fields):
    """Explains a prompt, then runs it: both give the reason, and its counter counts the run alone."""
    name = f'stemma_cache_reuse_limit_total{{limit="{reason}"}}'
    before = counters(server)[name]
    explained = explain(server, prompt, **fields)
    assert counters(server)[name] == before
    report = complete(server, prompt, **fields)
    assert counters(server)[name] == before + 1
    for answer in (explained, report):
        assert answer["reason"] == reason, answer
        assert answer["advice"].endswith("."), answer
        assert answer["prompt_tokens"] == len(prompt)
    assert explained["matched"] == report["matched"]
    assert explained["usable"] == report["usable"] == report["reused"]
    return explained, report


@pytest.fixture
def serve(server):  # depends on `server` for its skips
    servers = []

    def start(*arguments):
        servers.append(Server(*arguments))
        return servers[-1]

    yield start
    for one in servers:
        assert one.stop() == 0


def test_no_such_prefix(server):
    prompt = text(1, 200)
    explained, report = expect(server, prompt, "no_such_prefix")
    assert report["matched"] == 0
    planned = {mark["depth"]: mark["source"] for mark in explained["planned_checkpoints"]}
    assert planned[199] == "repeat"
    assert report["checkpoints_taken"] == sorted(planned)


def test_whole_prompt(server):
    prompt = text(2, 200)
    complete(server, prompt)
    explained, report = expect(server, prompt, "whole_prompt")
    assert report["reused"] == 199
    assert 199 in explained["checkpoints"]
    assert explained["planned_checkpoints"] == []


def test_other_namespace(server):
    prompt = text(3, 200)
    complete(server, prompt, cache_salt="one")
    explained, report = expect(server, prompt, "other_namespace", cache_salt="two")
    assert explained["other_namespace_matched"] == 200
    assert report["matched"] == 0


def test_state_not_stored(server):
    complete(server, text(4, 200))
    prompt = text(4, 200)[:100] + text(5, 50)
    explained, report = expect(server, prompt, "state_not_stored")
    assert report["matched"] == 100
    assert report["reused"] == 64  # a state every 64 tokens while memory is free
    assert {"depth": 100, "source": "branch"} in explained["planned_checkpoints"]
    third = text(4, 200)[:100] + text(6, 50)
    assert complete(server, third)["reused"] == 100


def test_state_not_stored_without_a_buffer(serve):
    server = serve("--mamba-scheduler-strategy", "no_buffer")
    complete(server, text(4, 200))
    explained, report = expect(server, text(4, 200)[:100] + text(5, 50), "state_not_stored")
    assert (report["matched"], report["reused"]) == (100, 0)
    assert explained["planned_checkpoints"] == report["checkpoints_taken"] == []


def test_kv_evicted(serve):
    server = serve(*SMALL, "--eviction-policy", "lru")
    prompt = text(7, 300)
    complete(server, prompt)
    for seed in range(8, 30):
        complete(server, text(seed, 500))
    expect(server, prompt, "kv_evicted")
    assert counters(server)["stemma_cache_evicted_pages_total"] > 0


def test_state_evicted(serve):
    server = serve(*SMALL, "--state-share", "0", "--eviction-policy", "lru")  # two rows
    prompt = text(9, 100)
    complete(server, prompt)
    complete(server, text(10, 100))
    explained, report = expect(server, prompt, "state_evicted")
    assert report["matched"] == 100
    assert report["reused"] == 0
    assert explained["evicted_checkpoint"] in range(1, 101)


def test_a_prompt_waits_for_its_prefix_in_flight(server):
    prompt = text(11, 3000)
    first, second = complete(server, prompt, n=2)
    assert first["waited_for"] == []
    assert first["reason"] == "no_such_prefix"
    assert [wait["reason"] for wait in second["waited_for"]] == ["prefix_in_flight"]
    assert second["reused"] == 2999


def test_explain_sees_a_prefix_in_flight(serve):
    server = serve("--chunked-prefill-size", "4")
    prompt = text(12, 3000)
    thread = threading.Thread(target=complete, args=(server, prompt))
    thread.start()
    seen = 0
    while thread.is_alive():
        seen = max(seen, explain(server, prompt + [5])["in_flight"])
    thread.join()
    assert seen == 3000
    assert explain(server, prompt + [5])["in_flight"] == 0


def test_requests_wait_for_rows(serve):
    server = serve(*SMALL, "--state-share", "0")  # two rows
    reports = complete(server, [text(seed, 100) for seed in range(20, 26)])
    waits = [wait["reason"] for report in reports for wait in report["waited_for"]]
    assert "no_rows" in waits
    assert counters(server)['stemma_cache_waits_total{reason="no_rows"}'] > 0


def test_requests_wait_for_pages(serve):
    server = serve(*SMALL, "--state-share", "0.7")
    reports = complete(server, [text(seed, 450) for seed in range(30, 36)])
    waits = [wait["reason"] for report in reports for wait in report["waited_for"]]
    assert "no_pages" in waits


def test_a_high_priority_stays_when_room_is_needed(serve):
    server = serve("--cache-memory", "3M", "--ctx-size", "512", "--eviction-policy", "priority")
    kept = text(40, 200)
    complete(server, kept, priority=90)
    for seed in range(41, 60):
        complete(server, text(seed, 300), priority=10)
    assert complete(server, kept)["reused"] == 199


def test_a_stream_ends_with_the_report(client):
    stream = client.completions.create(
        model="any", prompt=text(60, 50), max_tokens=3, stream=True, extra_body={"cache_report": True, "ignore_eos": True}
    )
    chunks = list(stream)
    assert [hasattr(chunk, "cache") for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].cache["reason"] == "no_such_prefix"
    assert chunks[-1].cache["prompt_tokens"] == 50
