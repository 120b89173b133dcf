"""The resources that the server offers: what the tools that read show, by address."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from scaffold.core.errors import UsageError
from scaffold.mcp.run_queries import evidence_json, inbox_json, run_status_json, runs_json
from scaffold.views.run_json import Json

SCHEME = "scaffold://"
RESOURCES = (
    ("scaffold://runs", "runs", "The runs of this repository, the one touched last first."),
    ("scaffold://inbox", "inbox", "What waits for a human, oldest first."),
)
TEMPLATES = (
    ("scaffold://runs/{run}", "run", "How far a run is: status, cost, goals, agents, inbox."),
    ("scaffold://runs/{run}/evidence", "evidence", "The facts of a run with their evidence, and what is missing."),
)
_FIXED: Mapping[str, Callable[[Path], Json]] = {"runs": runs_json, "inbox": inbox_json}


async def resource_json(cwd: Path, uri: str) -> Json:
    """Return the content of a resource; UsageError if there is none of this address."""
    return await asyncio.to_thread(_read_resource, cwd, uri)


def _read_resource(cwd: Path, uri: str) -> Json:
    match uri.removeprefix(SCHEME).split("/") if uri.startswith(SCHEME) else []:
        case [name] if name in _FIXED:
            return _FIXED[name](cwd)
        case ["runs", run] if run:
            return run_status_json(cwd, run)
        case ["runs", run, "evidence"] if run:
            return evidence_json(cwd, run, None)
    known = ", ".join(uri for uri, *_ in (*RESOURCES, *TEMPLATES))
    raise UsageError(f"there is no resource `{uri}`", f"There are {known}.")
