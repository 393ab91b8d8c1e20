"""A hit gives the same bits as computing again, over HTTP, under every strategy and every eviction policy, while memory is short."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import Server

STRATEGIES = ("no_buffer", "extra_buffer", "extra_buffer_lazy")
POLICIES = ("value", "lru", "lfu", "slru", "priority", "marconi", "marconi:0.5", "seglen")


def prompts():
    """A trunk, and prompts that leave it at awkward depths."""
    generator = random.Random(1)
    trunk = [generator.randrange(100, 4000) for _ in range(220)]
    tails = [[generator.randrange(100, 4000) for _ in range(30)] for _ in range(5)]
    return [trunk] + [trunk[:depth] + tail for depth, tail in zip((1, 37, 64, 150, 219), tails)]


def complete(server, prompt, **fields):
    """How much was reused; and token ids with log-probabilities, which are written exactly: equal means the same bits."""
    body = {"prompt": prompt, "max_tokens": 4, "temperature": 0, "ignore_eos": True, "logprobs": 3, "return_token_ids": True}
    answer = server.post("/v1/completions", body | fields)
    choice = answer["choices"][0]
    cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return cached, (choice["token_ids"], choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"])


def compute(server, prompt):
    """What a prompt gives when nothing is reused."""
    cached, answer = complete(server, prompt, cache_salt=repr(prompt))
    assert cached == 0
    return answer


@pytest.fixture(scope="module")
def computed(server):
    """Prompts, each followed by its next turn, and what they give."""
    conversations = []
    for prompt in prompts():
        conversations.append((prompt, compute(server, prompt)))
        tokens, *_ = conversations[-1][1]
        turn = prompt + tokens + prompt[:10]
        conversations.append((turn, compute(server, turn)))
    return conversations


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_hit_equals_computing_again(computed, strategy, policy):
    names = ("--eviction-policy", policy, "--mamba-scheduler-strategy", strategy)
    server = Server("--cache-memory", "1M", "--ctx-size", "300", *names)
    try:
        reused = 0
        for _ in range(2):
            with ThreadPoolExecutor(len(computed)) as clients:
                together = list(clients.map(lambda pair: complete(server, pair[0]), computed))
            alone = [complete(server, prompt) for prompt, _ in computed]
            for answers in (together, alone):
                assert [answer for _, answer in answers] == [answer for _, answer in computed]
                reused += sum(cached for cached, _ in answers)
        cache = server.info()["cache"]
        assert reused > 0
        assert cache["evicted_checkpoints"] > 0
    finally:
        assert server.stop() == 0
