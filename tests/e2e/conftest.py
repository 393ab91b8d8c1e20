"""A real server for the end-to-end tests: STEMMA_BINARY serving STEMMA_MODEL on a free port."""

import json
import os
import re
import subprocess
import urllib.request

import openai
import pytest


class Server:
    """`stemma serve` as a child process, ready to answer."""

    def __init__(self, *arguments, **popen):
        command = [os.environ["STEMMA_BINARY"], "serve", "--model", os.environ["STEMMA_MODEL"], "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **popen)
        self.printed = ""  # what it says before it serves, which ends in a request to try
        for line in self.process.stdout:
            self.printed += line
            if line.startswith("Ctrl-C"):
                break
        else:
            raise RuntimeError(f"{command} ended with {self.process.wait()} before it listened")
        self.url = re.search(r"^listening on (\S+)", self.printed, re.MULTILINE)[1]

    def stop(self):
        self.process.terminate()
        self.process.stdout.read()  # or it could wait for room in the pipe
        return self.process.wait()

    def get(self, path):
        with urllib.request.urlopen(self.url + path) as answer:
            return answer.read().decode()

    def post(self, path, body):
        with urllib.request.urlopen(self.url + path, json.dumps(body).encode()) as answer:
            return json.load(answer)

    def info(self):
        return json.loads(self.get("/server_info"))

    def idle_info(self):
        """The same once no request runs or waits."""
        while True:
            info = self.info()
            if info["engine"]["running"] == 0 and info["engine"]["waiting"] == 0:
                return info

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    def resident(self):
        """Bytes of its memory that are in the machine's."""
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def client(self, kind=openai.OpenAI):
        return kind(base_url=self.url + "/v1", api_key="none", timeout=None, max_retries=0)


def pytest_addoption(parser):
    parser.addoption("--crowd", type=int, default=2000, help="clients at once in test_crowd.py")


@pytest.fixture(scope="session")
def server():
    for name in ("STEMMA_BINARY", "STEMMA_MODEL"):
        if name not in os.environ:
            pytest.skip(f"{name} is not set")
    server = Server()
    yield server
    assert server.stop() == 0


@pytest.fixture
def client(server):
    return server.client()
