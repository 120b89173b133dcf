"""The client that the conformance suite of the protocol starts: our pool with one server, whose tools are all called.

Its last argument is the server's address. It answers questions with the defaults of their fields. Where the server
needs a login, it does what `/mcp login` does, at most twice; its browser agrees to everything.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from msgspec import structs

from scaffold.core.errors import ScaffoldError
from scaffold.extensions.mcp.pool import LocalPool, PoolSetup, tell_withheld
from scaffold.extensions.mcp.server_config import ClientConfig, ServerConfig
from scaffold.extensions.mcp.stdio import ServerPlace
from scaffold.host.clock import SystemClock
from scaffold.llm.transport.http_client import Transport
from scaffold.login.server_logins import ServerLogins
from scaffold.store.user_store import UserStore

EXAMPLES = {"integer": 5, "number": 3, "string": "text", "boolean": True, "array": [], "object": {}}


class NoApprovals:
    """A user for whom each use of a server is the first one."""

    def known(self, scope, program):
        return {}

    def approve(self, scope, server, program, digests):
        pass


async def _defaults(question):
    return "{}"


def _say(line):
    print(line, file=sys.stderr)


MAX_LOGINS = 2
NAMED = re.compile(r"https?://localhost:\d+")
METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""Where the suite has our metadata, for servers that read it there."""


def _client():
    """Return the client that the suite has registered for us, if it has."""
    if os.environ.get("MCP_CONFORMANCE_SCENARIO") == "auth/basic-cimd":
        return ClientConfig(client_id=METADATA_URL)
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    return ClientConfig(client_id=given.get("client_id", ""), client_secret=given.get("client_secret", ""))


def _store(folder):
    return UserStore.open(Path(folder) / "user.db", clock=SystemClock())


def _browse(page):
    with build_opener(ProxyHandler({})).open(page, timeout=20) as answer:
        answer.read()


async def _main(url):
    config = ServerConfig(
        name="suite", scope="user", transport="http", url=url, oauth=_client(), timeout_s=60, start_timeout_s=60
    )
    place = ServerPlace(cwd=Path.cwd(), environ=os.environ, sandbox=None)
    with tempfile.TemporaryDirectory() as data, closing(_store(data)) as user:
        async with Transport({}) as wire:
            logins = ServerLogins(user, wire, {}, clock=SystemClock(), data=Path(data))
            setup = PoolSetup(
                place=place, approvals=NoApprovals(), tell=_say, withheld=tell_withheld(_say), logins=logins.at
            )
            pool = LocalPool([config], setup)
            try:
                return await _work(pool, config, logins)
            finally:
                await pool.close()


async def _work(pool, config, logins):
    """Use the server, and log in as often as it says that this helps."""
    for number in range(MAX_LOGINS + 1):
        failed = await _use(pool)
        (summary,) = await pool.overview()
        asks = "/mcp login" in f"{summary.error} {failed}"
        if not asks or number == MAX_LOGINS:
            return 1 if failed or summary.state != "running" else 0
        try:
            config = await _log_in(config, logins)
        except ScaffoldError as error:
            _say(error.in_full)
            return 1
        pool.servers["suite"].config = config
        await pool.restart("suite")
    return 1


async def _log_in(config, logins):
    """Log in, and return the entry: the suite has its authorization server at a port that nobody knows before."""

    def show(page):
        asyncio.get_running_loop().run_in_executor(None, _browse, page)

    try:
        await logins.log_in(config, show)
    except ScaffoldError as error:
        named = NAMED.findall(error.what)
        if config.oauth.origins or not named:
            raise
        config = structs.replace(config, oauth=structs.replace(config.oauth, origins=tuple(named)))
        await logins.log_in(config, show)
    return config


async def _use(pool):
    """Call all tools, and return what failed."""
    failed = ""
    for tool in await pool.tools():
        properties = tool.schema["properties"]
        args = {name: EXAMPLES.get(each.get("type"), "text") for name, each in properties.items()}
        output = await pool.call(tool, args, _defaults)
        _say(f"{tool.name}: {output.content}")
        failed += output.content if output.failed else ""
    return failed


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(sys.argv[-1])))
