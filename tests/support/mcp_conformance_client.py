"""The client that the conformance suite of the protocol starts: our pool with one server, whose tools are all called.

Its last argument is the server's address. It answers questions with the defaults of their fields.
"""

import asyncio
import os
import sys
from pathlib import Path

from scaffold.extensions.mcp.config import ServerConfig
from scaffold.extensions.mcp.launch import ServerPlace
from scaffold.extensions.mcp.pool import LocalPool, PoolSetup, tell_withheld

EXAMPLES = {"integer": 5, "number": 3, "string": "text", "boolean": True, "array": [], "object": {}}


class NoApprovals:
    """A user for whom each use of a server is the first one."""

    def known(self, scope, server, program):
        return {}

    def approve(self, scope, server, program, digests):
        pass


async def _defaults(question):
    return "{}"


def _say(line):
    print(line, file=sys.stderr)


async def _main(url):
    config = ServerConfig(name="suite", scope="user", transport="http", url=url, timeout_s=20, start_timeout_s=10)
    place = ServerPlace(cwd=Path.cwd(), environ=os.environ, sandbox=None)
    pool = LocalPool([config], PoolSetup(place=place, approvals=NoApprovals(), tell=_say, withheld=tell_withheld(_say)))
    failed = False
    for tool in await pool.tools():
        properties = tool.schema["properties"]
        args = {name: EXAMPLES.get(each.get("type"), "text") for name, each in properties.items()}
        output = await pool.call(tool, args, _defaults)
        _say(f"{tool.name}: {output.content}")
        failed = failed or output.failed
    (summary,) = await pool.overview()
    await pool.close()
    return 1 if failed or summary.state != "running" else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(sys.argv[-1])))
