"""Packages that `python` and handmade tools may import: what there is, and getting more."""

import asyncio
import importlib.util
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from scaffold.core.errors import ScaffoldError
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.files import FileLock
from scaffold.host.process import run
from scaffold.tools.arguments import object_schema
from scaffold.tools.outputs import Command, run_told
from scaffold.tools.shell import answer
from scaffold.tools.workspace import Workspace, failed

LIST_TIME_S = 30.0
LIST_BYTES = 10_000_000
INSTALL_TIME_S = 300.0
LOCK_TIME_S = 60.0
MOST_PACKAGES = 20
_LISTING = """
import json, sys
from importlib.metadata import distributions
places = ((True, sys.argv[1:]), (False, sys.path))
found = {(each.name, each.version, added) for added, path in places for each in distributions(path=path) if each.name}
print(json.dumps([{"name": name, "version": version, "added": added} for name, version, added in sorted(found)]))
"""
_PIP = (sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input")
_PYTHON = f"--python-version={sys.version_info.major}.{sys.version_info.minor}"
_WHEEL = ("--only-binary=:all:", "--platform=any", "--implementation=py", "--abi=none", _PYTHON)
"""Only py3-none-any wheels, of dependencies too: nothing is built, so nothing of theirs runs."""
_VERSION = r"\s*(?:===|[<>=!~]=|[<>])\s*[\w.*+!-]+\s*"
_NAME = r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?(?:\[[\w\s.,-]*\])?"
_REQUIREMENT = re.compile(rf"{_NAME}(?:{_VERSION}(?:,{_VERSION})*)?", re.ASCII)
_ARCHIVES = (".whl", ".zip", ".gz", ".bz2", ".xz", ".tar", ".tgz")


def pip_list(packages: Path) -> Tool:
    """Return the tool that lists what can be imported, as JSON: name, version, and whether it lies in `packages`."""

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        """Ask the interpreter that the python tool runs."""
        finished = await run(
            [sys.executable, "-I", "-X", "utf8", "-c", _LISTING, str(packages)],
            cwd=Path("/"),
            env={},
            timeout_s=LIST_TIME_S,
            limit_bytes=LIST_BYTES,
            leash=True,
        )
        if finished.exit_code != 0 or finished.truncated:
            return failed("What is installed cannot be listed; find out with python (import it).")
        wanted = args.get("name", "").casefold()
        listed = [each for each in msgspec.json.decode(finished.stdout) if wanted in each["name"].casefold()]
        return ToolOutput(msgspec.json.encode(listed).decode())

    return Tool(
        name="pip_list",
        description="List the Python packages that the python tool can import; `added` ones came by pip_install.",
        schema=object_schema({}, name={"type": "string", "description": "Only names with this in them."}),
        category="file_read",
        run=work,
    )


def pip_install(workspace: Workspace, packages: Path) -> Tool:
    """Return the tool that installs pure Python packages into the folder `packages`, which is made if need be."""

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        """Install what is pure Python, or say what is not."""
        wanted = args["packages"]
        if problem := _unfit(wanted):
            return failed(problem)
        if importlib.util.find_spec("pip") is None:
            return failed(
                "This installation's Python has no pip; ask the user to install what you need, or do without."
            )
        command = Command(
            argv=[*_PIP, "install", *_WHEEL, "--upgrade", "--target", str(packages), *wanted],
            cwd=packages,
            env=workspace.env,
            timeout_s=INSTALL_TIME_S,
        )
        try:
            await asyncio.to_thread(packages.mkdir, parents=True, exist_ok=True)
            async with FileLock(packages.with_name(f"{packages.name}.lock"), timeout_s=LOCK_TIME_S):
                return answer(await run_told(command))
        except ScaffoldError as error:
            return failed(f"{error.what}; {error.fix}.")
        except OSError as error:
            return failed(f"The folder of packages cannot be written ({error.strerror}); tell the user, or do without.")

    return Tool(
        name="pip_install",
        description="Install pure Python packages (py3-none-any wheels) for the python tool, not for the workspace.",
        schema=object_schema(
            {
                "packages": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Like `name`, `name==1.2` or `name[extra]>=1,<2`.",
                }
            }
        ),
        category="network",
        run=work,
    )


def _unfit(wanted: list[str]) -> str | None:
    """Return what is wrong with the names: options, paths and addresses are never passed on."""
    if not 0 < len(wanted) <= MOST_PACKAGES:
        return f"`packages` has {len(wanted)} names; give 1 to {MOST_PACKAGES}."
    wrong = [each for each in wanted if not _REQUIREMENT.fullmatch(each) or each.lower().endswith(_ARCHIVES)]
    return f"{wrong[0]!r} is no package of an index; give names like `name` or `name>=1.2`." if wrong else None
