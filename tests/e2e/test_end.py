"""How a server ends: a first signal lets requests finish and tells others so; a second ends it; a time is set to it."""

import asyncio
import signal
import urllib.error

import pytest

from conftest import Server
from raw_http import Client, request_bytes

ENDLESS = 10**6  # the context is the end


async def start_stream(server, tokens):
    client = Client(server.port)
    await client.connect()
    await client.send(request_bytes("/v1/completions", {"prompt": "Once", "max_tokens": tokens, "stream": True, "ignore_eos": True}))
    while not client.events():
        assert await client.receive()
    return client


def refusal(ask):
    """The status and code of an answer; None if it is none."""
    try:
        ask()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    return None


def wait_until_it_says_that_it_ends(server):
    while not (refused := refusal(lambda: server.get("/health"))):
        pass
    assert refused[0] == 503
    assert "server_shutting_down" in refused[1]


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_requests_finish(server, which):
    one = Server()

    async def check():
        client = await start_stream(one, 2000)
        one.process.send_signal(which)
        await asyncio.to_thread(wait_until_it_says_that_it_ends, one)
        status, answer = refusal(lambda: one.post("/v1/completions", {"prompt": "x"}))
        assert status == 503
        assert "server_shutting_down" in answer
        events = await client.receive_stream()
        assert events[-1] == "[DONE]"
        client.close()

    asyncio.run(check())
    one.process.stdout.read()
    assert one.process.wait() == 0


def test_the_second_signal_ends_at_once(server):
    one = Server("--ctx-size", "32768")

    async def check():
        client = await start_stream(one, ENDLESS)
        one.process.terminate()
        await asyncio.to_thread(wait_until_it_says_that_it_ends, one)
        one.process.terminate()
        try:
            assert await client.receive_stream() is None
        except ConnectionResetError:
            pass
        client.close()

    asyncio.run(check())
    assert one.process.wait() == -signal.SIGTERM


def test_requests_have_so_long_and_no_longer(server):
    one = Server("--ctx-size", "32768", "--drain-timeout", "0.3")

    async def check():
        client = await start_stream(one, ENDLESS)
        one.process.terminate()
        events = await client.receive_stream()
        assert "server_shutting_down" in events[-1]
        client.close()

    asyncio.run(check())
    one.process.stdout.read()
    assert one.process.wait() == 0
