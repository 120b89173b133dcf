"""What MCP servers cost at the start of `ralph -p`: 20 of 50 tools each, the slowest of them alone, and none."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ralph_start import RalphSetup, ask, ralph_setup
from row import Row, medians, row, seconds
from scaffold.config.trusted_extensions import mcp_files

REQUEST_LIMIT_KB = 24.0
SERVERS = 20
TOOLS = 50
SLOWEST_S = 1.0
LOOKS = 200
MOST_MORE = 1.3
UNCHANGED = 1.02
SERVER = f"""#!{sys.executable} -IS
import json, sys, time
time.sleep(float(sys.argv[2]))
about = "Does one of the many things that agents ask this server for. " * 3
member = {{"type": "string", "description": "What it is about, in a few words."}}
schema = {{"type": "object", "properties": {{name: member for name in ("title", "body", "state")}}}}
tools = [{{"name": f"thing_{{at}}", "description": about, "inputSchema": schema}} for at in range({TOOLS})]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        result = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
                  "serverInfo": {{"name": sys.argv[1], "version": "1"}}}}
        reply = {{"result": result}}
    elif asked["method"] == "tools/list":
        reply = {{"result": {{"tools": tools}}}}
    else:
        reply = {{"error": {{"code": -32601, "message": "unknown method"}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], **reply}}), flush=True)
"""


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: the start without any, the bytes of the first request with 20, and the start against the slowest alone."""
    with ralph_setup() as setup:
        yield _none(setup)
        program = _program(setup)
        start = partial(setup.first_request_s, ask("openai:bench-0-0"))
        alone = partial(_configured, setup, program, 1, start)
        together = partial(_configured, setup, program, 2 if quick else SERVERS, start)
        together()
        for wire in ("anthropic", "openai"):
            setup.first_request_s(ask(f"{wire}:bench-0-0"))
            size_kb = setup.provider.received().first_bytes / 1000
            yield row(f"mcp-first-request-{wire}", size_kb, REQUEST_LIMIT_KB, unit="kB", goal=1.0)
        all_s, one_s = medians(1 if quick else 7, together, alone)
        yield row("mcp-start-against-slowest", all_s * 1000, one_s * 1000, unit="ms", goal=MOST_MORE)


def _none(setup: RalphSetup) -> Row:
    """Return the start of a session without servers, against the same without its look for files that name some."""
    start_s = setup.first_request_s(ask("openai:bench-0-0"))
    look_s = seconds(lambda: [mcp_files(setup.cwd, once=False, tell=print) for _ in range(LOOKS)]) / LOOKS
    return row("mcp-start-without-servers", start_s * 1000, (start_s - look_s) * 1000, unit="ms", goal=UNCHANGED)


def _program(setup: RalphSetup) -> Path:
    folder = setup.home / "servers"
    folder.mkdir()
    program = folder / "server.py"
    program.write_text(SERVER)
    program.chmod(0o755)
    return program


def _configured(setup: RalphSetup, program: Path, count: int, measure: partial[float]) -> float:
    """Return what is measured with so many servers, of which one is slow."""
    reads = [str(program.parent)]
    servers = {
        f"server-{at}": {"command": str(program), "args": [str(at), str(0 if at else SLOWEST_S)], "reads": reads}
        for at in range(count)
    }
    config = setup.home / "config"
    config.mkdir(exist_ok=True)
    (config / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return measure()
