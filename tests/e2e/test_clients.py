"""Many clients at once, of whom a third hang up midway: the others complete, and nothing stays behind."""

import asyncio

import openai

CLIENTS = 100
TOKENS = 24


async def ask(client, number):
    """One streaming client; every third leaves after its second chunk. Whether the answer came to its end."""
    stream = await client.completions.create(
        model="any",
        prompt=f"Story {number % 10}: a long time ago, in a far country, there lived",
        max_tokens=TOKENS,
        seed=number,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    chunks = 0
    async for chunk in stream:
        chunks += 1
        if number % 3 == 0 and chunks == 2:
            await stream.close()
            return False
    assert chunk.choices[0].finish_reason == "length"
    return True


async def crowd(server):
    async with server.client(openai.AsyncOpenAI) as client:
        return await asyncio.gather(*[ask(client, number) for number in range(CLIENTS)])


def assert_pools_are_whole(info):
    for name in ("pages", "rows"):
        pool = info["cache"][name]
        assert pool["pinned"] == 0, info["cache"]
        assert pool["free"] + pool["evictable"] == pool["capacity"], info["cache"]
    assert info["cache"]["leases"] == 0


def test_a_crowd_of_which_a_third_leaves(server):
    before = server.idle_info()
    complete = asyncio.run(crowd(server))
    leavers = len(range(0, CLIENTS, 3))
    assert complete.count(True) == CLIENTS - leavers
    after = server.idle_info()
    assert_pools_are_whole(after)
    ended = {name: after["engine"][f"requests_{name}"] - before["engine"][f"requests_{name}"]
             for name in ("finished", "cancelled", "failed")}
    assert ended["failed"] == 0
    assert ended["finished"] + ended["cancelled"] == CLIENTS
    assert ended["finished"] >= CLIENTS - leavers

    server.get("/flush_cache")
    while True:  # the flush happens before the engine's next step
        pools = server.info()["cache"]
        if all(pools[name]["free"] == pools[name]["capacity"] for name in ("pages", "rows")):
            break
