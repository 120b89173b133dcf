"""The MCP servers that a session here would have."""

import os
from pathlib import Path

from scaffold.cli.commands.doctor.checks import DoctorCheck
from scaffold.config.mcp_files import mcp_files
from scaffold.config.permission_settings import sandbox_settings
from scaffold.config.settings import load_settings
from scaffold.core.errors import ScaffoldError
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.session.options import SessionOptions
from scaffold.session.slash.server_listing import started_servers

FIX = "`ralph /mcp` says more; see docs/mcp.md"


async def check_servers() -> list[DoctorCheck]:
    """Return a check of each configured server, which is started and ended; empty if there is none."""
    cwd, ignored = Path.cwd(), list[str]()
    if not mcp_files(cwd, once=False, tell=ignored.append):
        return [DoctorCheck("mcp", "warn", line, "") for line in ignored]
    try:
        settings = load_settings(cwd, os.environ, {})
        options = SessionOptions(
            cwd=cwd,
            home=Path.home(),
            rules=RuleSet(),
            max_turns=1,
            budget_usd=None,
            stream=False,
            system_prompt=None,
            sandbox=sandbox_settings(settings),
        )
        async with started_servers(options) as (servers, notices):
            rows = await servers.rows()
    except ScaffoldError as error:
        return [DoctorCheck("mcp", "fail", error.what, error.fix)]
    checks = [
        DoctorCheck("mcp", "ok" if row.ok else "warn", f"{row.name}: {row.text}", "" if row.ok else FIX) for row in rows
    ]
    return [*checks, *(DoctorCheck("mcp", "warn", line, FIX) for line in notices if not rows)]
