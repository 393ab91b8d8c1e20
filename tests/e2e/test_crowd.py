"""2,000 clients at once (--crowd N) on streams: a third hang up midway, 50 never read. The others get whole answers, the same as
alone; and afterwards the server holds no more than before: memory, pages, rows, descriptors."""

import asyncio
import json
import random
import resource
import time

import pytest

from conftest import Server
from raw_http import Client, request_bytes
from test_clients import assert_pools_are_whole

TOKENS = 24
NEVER_READ = 50
MIB = 1 << 20


def body(number, **fields):
    return {
        "prompt": f"Story {number % 10}: a long time ago, in a far country, there lived",
        "max_tokens": TOKENS,
        "seed": number,
        "stream": True,
        "ignore_eos": True,
        **fields,
    }


def text_of(events):
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    return "".join(chunk["choices"][0]["text"] for chunk in chunks)


async def stay(client, number):
    await client.send(request_bytes("/v1/completions", body(number)))
    events = await client.receive_stream()
    client.close()
    return text_of(events)


async def leave(client, number):
    """Hangs up after the second event, or before the first."""
    await client.send(request_bytes("/v1/completions", body(number)))
    while len(client.events()) < (number // 3) % 3 and await client.receive():
        pass
    if number % 2 == 0:
        client.close()
    else:
        client.reset()


async def never_read(client, number):
    """Asks for more than the sockets take in; the connection stays."""
    await client.send(request_bytes("/v1/completions", body(number, max_tokens=100, logprobs=5)))


async def crowd(server, size):
    """All connect, then all ask. The texts of those that stayed, by number."""
    deaf = range(size - min(NEVER_READ, size // 10), size)
    clients = [Client(server.port, 2048 if number in deaf else None) for number in range(size)]
    for client in clients:
        await client.connect()
    while server.info()["server"]["connections"] < size:
        pass

    def act(number):
        return never_read if number in deaf else leave if number % 3 == 0 else stay

    texts = await asyncio.gather(*[act(number)(client, number) for number, client in enumerate(clients)])
    await asyncio.to_thread(server.idle_info)  # those that do not read hold nothing up
    assert_pools_are_whole(server.info())
    for number in deaf:
        clients[number].close()
    return {number: text for number, text in enumerate(texts) if act(number) is stay}


def settled(value, wanted):
    """Reads `value` until it is what is `wanted`."""
    while (now := value()) != wanted:
        pass
    return now


def resident_at_rest(server):
    """Once the server has had the time to give the heap's free memory back (src/server/heap_trimmer.h)."""
    time.sleep(7)
    return server.resident()


def fill_cache(server):
    """From here on the cache's memory is all taken, and only moves."""
    generator = random.Random(0)
    while server.info()["cache"]["budget_free_bytes"] > MIB:
        prompt = [generator.randrange(100, 4000) for _ in range(900)]
        server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})


@pytest.fixture
def room_for_descriptors(request):
    """This process's limit, raised for the clients; the server raises its own."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    if before[1] < request.config.getoption("--crowd") + 100:
        pytest.skip(f"this system allows {before[1]} open files")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def crowded(server, room_for_descriptors):  # `server` for its skips
    one = Server("--cache-memory", "64M", "--ctx-size", "1024")
    yield one
    assert one.stop() == 0


def test_a_crowd_leaves_nothing_behind(crowded, request):
    size = request.config.getoption("--crowd")
    fill_cache(crowded)
    # A first crowd scatters what the cache keeps of it over the heap, once: later ones find the places of the earlier ones'.
    asyncio.run(crowd(crowded, size))
    start = crowded.idle_info()
    memory = resident_at_rest(crowded)
    descriptors = crowded.descriptors()

    texts = asyncio.run(crowd(crowded, size))
    assert len(texts) >= size // 2
    end = crowded.idle_info()
    assert_pools_are_whole(end)
    assert end["engine"]["requests_failed"] == start["engine"]["requests_failed"] == 0
    ended = sum(end["engine"][name] - start["engine"][name] for name in ("requests_finished", "requests_cancelled"))
    assert len(texts) <= ended <= size  # those who hang up before they are heard are not counted
    settled(crowded.descriptors, descriptors)
    settled(lambda: crowded.info()["server"]["connections"], 1)  # the one that asks
    busiest = crowded.resident()
    after = resident_at_rest(crowded)
    print(f"{size} clients: resident {memory / MIB:.1f} MiB before, {busiest / MIB:.1f} when they left, {after / MIB:.1f} after")
    assert after < 1.05 * memory

    for number in random.Random(1).sample(sorted(texts), 20):
        alone = crowded.post("/v1/completions", body(number, stream=False))
        assert alone["choices"][0]["text"] == texts[number]

    crowded.get("/flush_cache")
    settled(lambda: [crowded.info()["cache"][pool]["free"] for pool in ("pages", "rows")],
            [end["cache"][pool]["capacity"] for pool in ("pages", "rows")])
