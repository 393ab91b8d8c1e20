"""What the documents show: every command in a fenced `sh` block, and every link to a file.

What takes moments is run as it stands, with the test's server in place of port 8080 and the test's model in place of the
README's example. Of the rest (builds, benchmarks, test programs) the test checks that the target, program or option exists.
A command of another kind fails: the test has to learn it.
"""

import json
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import Server

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "models/README.md", ROOT / "tools/train/README.md"])
ADDRESS = "http://127.0.0.1:8080"
EXAMPLE_MODEL = "Qwen3.5-4B-Q8_0.gguf"
EXAMPLE_TRACE = "trace.jsonl"
STEMMA = "build/release/stemma"


def is_complete(text):
    try:
        return bool(shlex.split(text, comments=True)) and not text.endswith("\\\n")
    except ValueError:  # an open quotation
        return False


def shown_commands():
    """(place, text) of each command; a quotation or a backslash carries it on to the next line."""
    for path in DOCUMENTS:
        block, text = False, ""
        for number, line in enumerate(path.read_text().splitlines(keepends=True), 1):
            if line.startswith("```"):
                assert not text.strip(), f"{path}:{number}: the block ends inside a command"
                block = line.strip() == "```sh"
            elif block:
                text += line
                if is_complete(text):
                    yield pytest.param(text, id=f"{path.relative_to(ROOT)}:{number}: {text.split()[0]}")
                    text = ""


def write_trace(path):
    """40 chats of 4 turns, interleaved, in Mooncake's format: each prompt goes on from the one before it by 4 blocks."""
    with path.open("w") as file:
        for time in range(160):
            turn, chat = divmod(time, 40)
            blocks = [0, *range(1 + 100 * chat, 1 + 100 * chat + 4 * (turn + 1))]
            request = {"timestamp": 1000 * time, "input_length": 512 * len(blocks), "output_length": 100, "hash_ids": blocks}
            file.write(json.dumps(request) + "\n")


@pytest.fixture(scope="session")
def place():
    """A folder like the repository's root, which the commands may write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("bench", "build", "models", "tools"):
            (folder / part).symlink_to(ROOT / part)
        (folder / EXAMPLE_MODEL).symlink_to(os.environ["STEMMA_MODEL"])
        write_trace(folder / EXAMPLE_TRACE)
        yield folder


def run(text, folder):
    done = subprocess.run(["sh", "-ec", text], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_chat(text, folder):
    """A streamed chat request: the answer comes to its end, and the second time its prompt is reused."""
    for cached in (0, 1):
        events = [line.removeprefix("data: ") for line in run(text, folder).splitlines() if line]
        assert events[-1] == "[DONE]"
        usage = json.loads(events[-2])["usage"]
        assert usage["completion_tokens"] > 0
        assert usage["prompt_tokens_details"]["cached_tokens"] >= cached


@pytest.mark.parametrize("text", list(shown_commands()))
def test_command(text, server, place):
    program, *arguments = shlex.split(text, comments=True)
    if program == "curl":
        assert ADDRESS in text
        check_chat(text.replace(ADDRESS, server.url), place)
    elif program == STEMMA and arguments[0] == "serve":
        assert arguments[1:3] == ["-m", EXAMPLE_MODEL]
        assert Server(*arguments[3:]).stop() == 0
    elif program == STEMMA:
        assert run(text.replace(STEMMA, os.environ["STEMMA_BINARY"]), place)
    elif program == "make":
        subprocess.run(["make", "-n", *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    elif program == "tools/build.sh":
        subprocess.run(["ninja", "-n", "-C", f"build/{arguments[0]}", *arguments[1:]], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
    elif program == "bench/peers.sh":
        assert os.access(ROOT / program, os.X_OK)
        assert not arguments
    elif program.startswith(("bench/", "build/release/bench/", "build/release/tests/")):
        known = subprocess.run([ROOT / program, "--help"], check=True, capture_output=True, text=True).stdout
        for argument in arguments:
            option = argument.partition("=")[0]
            assert not option.startswith("-") or re.search(rf"{option}(?![\w-])", known), option
    else:
        pytest.fail(f"this test does not know what to do with {program}")


def test_the_request_that_serve_prints(server, place):
    check_chat(re.search(r"curl .*}'", server.printed, re.DOTALL)[0], place)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if not target.startswith(("http:", "https:", "#")):
            assert (path.parent / target.partition("#")[0]).exists(), target
