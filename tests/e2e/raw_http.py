"""HTTP by hand over asyncio's sockets: thousands of clients in one process, and clients that do not behave."""

import asyncio
import json
import socket
import struct


def request_bytes(path, body):
    data = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data


class Client:
    """One connection. `receive_buffer`: bytes that the system takes in for it at most; None: as many as it likes."""

    def __init__(self, port, receive_buffer=None):
        self.port = port
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setblocking(False)
        self.received = b""

    async def connect(self):
        await asyncio.get_running_loop().sock_connect(self.socket, ("127.0.0.1", self.port))

    async def send(self, data):
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def receive(self):
        """More of the answer; whether there was any."""
        data = await asyncio.get_running_loop().sock_recv(self.socket, 65536)
        self.received += data
        return bool(data)

    async def receive_stream(self):
        """A streamed answer to its end: its events, of which the last is [DONE]; None if the connection broke off."""
        while not self.received.endswith(b"\r\n0\r\n\r\n"):
            if not await self.receive():
                return None
        return self.events()

    def events(self):
        """What events have arrived; each is sent as a chunk of its own."""
        lines = self.received.decode().split("\r\n")
        return [line.strip().removeprefix("data: ") for line in lines if line.startswith("data: ")]

    def close(self):
        self.socket.close()

    def reset(self):
        """Leaves without good-bye, as a process that is killed with unread data."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
