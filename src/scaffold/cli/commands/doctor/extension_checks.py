"""Plugins, hooks, skills, roles, commands and MCP servers: what was found, and what of it has no effect."""

import os
from pathlib import Path

from scaffold.agent.extensions.access import plugins_folder
from scaffold.cli.commands.doctor.checks import DoctorCheck
from scaffold.config.permission_settings import sandbox_settings
from scaffold.config.settings import load_settings
from scaffold.config.trusted_extensions import find_extensions, mcp_files
from scaffold.core.errors import ScaffoldError
from scaffold.core.printable_text import count_of, join_limited, one_line
from scaffold.host.startup import importing
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.session.options import SessionOptions
from scaffold.session.slash.extension_listing import started_servers

FIX = "`ralph /mcp` says more; see docs/mcp.md"
MAX_NAMES = 8


def check_extensions() -> list[DoctorCheck]:
    """Return a check of the plugins and one of the rest, each if there are some. Starts none of them."""
    return [*_check_plugins(), *_check_others()]


def _check_plugins() -> list[DoctorCheck]:
    folder = plugins_folder()
    try:
        if not os.listdir(folder):  # noqa: PTH208 - as the session looks
            return []
    except OSError:
        return []
    with importing():
        from scaffold.extensions.plugins.loaded import plugin_files
    found = plugin_files(folder, me=os.getuid())
    named = join_limited([one_line(file.name) for file in found.files], MAX_NAMES)
    text = f"{count_of(len(found.files), 'file')}: {named}" if found.files else f"no plugin among the files in {folder}"
    if not found.notices:
        return [DoctorCheck("plugins", "ok", f"{text}; `ralph /plugins` starts them and shows what they are")]
    return [DoctorCheck("plugins", "warn", f"{text}; {found.notices[0]}", "Fix the file, or move it away.")]


def _check_others() -> list[DoctorCheck]:
    notices: list[str] = []
    try:
        settings = load_settings(Path.cwd(), os.environ, {})
        found = find_extensions(settings, settings.trust, home=Path.home(), notice=notices.append)
    except ScaffoldError:
        return []  # another check says so
    kinds = {"hook": found.hooks, "skill": found.skills, "role": found.roles, "command": found.commands}
    counts = ", ".join(count_of(len(entries), kind) for kind, entries in kinds.items() if entries)
    if not counts and not notices:
        return []
    if not notices:
        return [DoctorCheck("extensions", "ok", counts)]
    more = f", and {count_of(len(notices) - 1, 'other line')}" if len(notices) > 1 else ""
    fix = "Fix it; `scaffold trust` shows and trusts a folder's own configuration."
    return [DoctorCheck("extensions", "warn", f"{counts or 'none in effect'}; {notices[0]}{more}", fix)]


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
            rows = await servers.rows() if servers else ()
    except ScaffoldError as error:
        return [DoctorCheck("mcp", "fail", error.what, error.fix)]
    checks = [
        DoctorCheck("mcp", "ok" if row.ok else "warn", f"{row.name}: {row.text}", "" if row.ok else FIX) for row in rows
    ]
    return [*checks, *(DoctorCheck("mcp", "warn", line, FIX) for line in notices if not rows)]
