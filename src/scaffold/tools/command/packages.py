"""List and install the packages that `python` and user tools may import."""

import asyncio
import importlib.util
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from scaffold.core.errors import ScaffoldError
from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.host.atomic_files import FileLock
from scaffold.host.process.command_runner import Containment, OutputCapture, run_command
from scaffold.tools.arguments import object_schema
from scaffold.tools.command.shell import command_answer
from scaffold.tools.command.spooled_output import CommandSpec, run_spooled
from scaffold.tools.workspace import Workspace, failed_answer

LIST_TIMEOUT_S = 30.0
LIST_BYTES = 10_000_000
INSTALL_TIMEOUT_S = 300.0
LOCK_TIMEOUT_S = 60.0
MAX_PACKAGES = 20
PACKAGES = ToolGroup("packages")
_LIST_SCRIPT = """
import json, sys
from importlib.metadata import distributions
places = ((True, sys.argv[1:]), (False, sys.path))
found = {(each.name, each.version, added) for added, path in places for each in distributions(path=path) if each.name}
print(json.dumps([{"name": name, "version": version, "added": added} for name, version, added in sorted(found)]))
"""
_PIP = (sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input")
_PYTHON = f"--python-version={sys.version_info.major}.{sys.version_info.minor}"
_WHEEL = ("--only-binary=:all:", "--platform=any", "--implementation=py", "--abi=none", _PYTHON)
"""Only py3-none-any wheels, also for dependencies: nothing is built, so installing runs no package code."""
_VERSION = r"\s*(?:===|[<>=!~]=|[<>])\s*[\w.*+!-]+\s*"
_NAME = r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?(?:\[[\w\s.,-]*\])?"
_REQUIREMENT = re.compile(rf"{_NAME}(?:{_VERSION}(?:,{_VERSION})*)?", re.ASCII)
_ARCHIVES = (".whl", ".zip", ".gz", ".bz2", ".xz", ".tar", ".tgz")


def pip_list(packages: Path) -> Tool:
    """Return the tool that lists installed packages as JSON: name, version, `added` if it is in `packages`."""

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        """List with the interpreter that the python tool uses."""
        finished = await run_command(
            [sys.executable, "-I", "-X", "utf8", "-c", _LIST_SCRIPT, str(packages)],
            cwd=Path("/"),
            env={},
            timeout_s=LIST_TIMEOUT_S,
            output=OutputCapture(limit_bytes=LIST_BYTES),
            containment=Containment(),
        )
        if finished.exit_code != 0 or finished.truncated:
            return failed_answer("Listing the installed packages failed; try the import with python instead.")
        part = args.get("name", "").casefold()
        listed = [each for each in msgspec.json.decode(finished.stdout) if part in each["name"].casefold()]
        return ToolOutput(msgspec.json.encode(listed).decode())

    return Tool(
        name="pip_list",
        description="List the Python packages that the python tool can import; `added`: installed by pip_install.",
        schema=object_schema({}, name={"type": "string", "description": "Only packages whose name contains this."}),
        category="file_read",
        run=work,
        group=PACKAGES,
    )


def pip_install(workspace: Workspace, packages: Path) -> Tool:
    """Return the tool that installs pure Python packages into the folder `packages`, creating it if missing."""

    async def work(args: Mapping[str, Any]) -> ToolOutput:
        """Install the packages, or return why pip did not."""
        requirements = args["packages"]
        # Options, paths and URLs never reach pip: they could run code or read files outside.
        if not 0 < len(requirements) <= MAX_PACKAGES:
            return failed_answer(f"`packages` has {len(requirements)} names; give 1 to {MAX_PACKAGES}.")
        wrong = [each for each in requirements if not _REQUIREMENT.fullmatch(each) or each.lower().endswith(_ARCHIVES)]
        if wrong:
            return failed_answer(f"{wrong[0]!r} is not a package name; give names like `name` or `name>=1.2`.")
        if importlib.util.find_spec("pip") is None:
            return failed_answer(
                "This Python installation has no pip; ask the user to install the package, or continue without it."
            )
        pip_settings = {name: value for name, value in workspace.env.items() if name.startswith("PIP_")}
        command = CommandSpec(
            argv=[*_PIP, "install", *_WHEEL, "--upgrade", "--target", str(packages), *requirements],
            cwd=packages,
            env=workspace.own_env | pip_settings,
            timeout_s=INSTALL_TIMEOUT_S,
        )
        try:
            await asyncio.to_thread(packages.mkdir, parents=True, exist_ok=True)
            async with FileLock(packages.with_name(f"{packages.name}.lock"), timeout_s=LOCK_TIMEOUT_S):
                return command_answer(await run_spooled(command))
        except ScaffoldError as error:
            return failed_answer(f"{error.what}; {error.fix}.")
        except OSError as error:
            return failed_answer(
                f"The package folder is not writable ({error.strerror}); tell the user, or continue without it."
            )

    return Tool(
        name="pip_install",
        description="Install pure Python packages (py3-none-any wheels) for the python tool, not into the workspace.",
        schema=object_schema(
            {
                "packages": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Requirements: `name`, `name==1.2` or `name[extra]>=1,<2`.",
                }
            }
        ),
        category="network",
        run=work,
        group=PACKAGES,
    )
