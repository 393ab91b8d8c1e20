"""A server that nobody asks takes no processor time, also with clients connected."""

import asyncio
import os
import time

from raw_http import Client, request_bytes

SECONDS = 3


def processor_ticks(process):
    """Of all threads, in the system's ticks (mostly 10 ms)."""
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])  # utime, stime


async def load_that_goes_and_clients_that_stay(server):
    clients = [Client(server.port) for _ in range(50)]
    for client in clients:
        await client.connect()
        await client.send(request_bytes("/v1/completions", {"prompt": "Once", "max_tokens": 8, "stream": True}))
    for client in clients:
        await client.receive_stream()
    return clients


def test_an_idle_server_takes_no_time(server):
    clients = asyncio.run(load_that_goes_and_clients_that_stay(server))
    server.idle_info()
    time.sleep(0.5)  # for what is left to do after a load
    before = processor_ticks(server.process)
    time.sleep(SECONDS)
    taken = processor_ticks(server.process) - before
    assert taken <= 1, f"{taken / os.sysconf('SC_CLK_TCK')} of {SECONDS} seconds"
    assert server.info()["server"]["connections"] >= len(clients)
    for client in clients:
        client.close()
