"""The cache's memory is one budget for KV pages and recurrent states, and what is resident stays within it."""

import random

import pytest

from conftest import Server

MIB = 1 << 20
BUDGET = 16 * MIB
SLACK = 6 * MIB  # a step's own memory, the tree, the allocator's arenas


def send(server, seed, length):
    generator = random.Random(seed)
    prompt = [generator.randrange(100, 4000) for _ in range(length)]
    server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})


@pytest.fixture
def small(server):  # depends on `server` for its skips
    one = Server("--cache-memory", "16M", "--ctx-size", "4000")
    yield one
    assert one.stop() == 0


def test_memory_can_be_taken_at_the_start(server):
    usual, prefaulted = Server("--cache-memory", "256M"), Server("--cache-memory", "256M", "--prefault")
    try:
        assert "taken from the system at the start" in prefaulted.printed
        more = prefaulted.resident() - usual.resident()
        assert 255 * MIB < more < 262 * MIB
        send(prefaulted, 0, 2000)
        assert prefaulted.info()["cache"]["budget_free_bytes"] < MIB
    finally:
        assert usual.stop() == prefaulted.stop() == 0


def test_what_is_resident_stays_within_the_budget(small):
    cache = small.info()["cache"]
    assert cache["budget_bytes"] == BUDGET
    send(small, 0, 3900)  # a step of the largest size
    small.get("/flush_cache")
    send(small, 0, 10)
    before = small.resident() - (BUDGET - small.info()["cache"]["budget_free_bytes"])
    for round in range(2):
        for seed in range(8):  # KV, more than there is room for
            send(small, 100 * round + seed, 3900)
            assert small.resident() - before < BUDGET + SLACK
        for seed in range(100):  # states, more than there is room for
            send(small, 1000 * (round + 1) + seed, 20)
        assert small.resident() - before < BUDGET + SLACK
    after = small.info()["cache"]
    assert after["evicted_pages"] > 0
    assert after["evicted_checkpoints"] > 0
    assert after["budget_free_bytes"] < MIB
