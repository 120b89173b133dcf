"""How this program was installed, what is newer, and the command that installs it."""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import ScaffoldError
from scaffold.host.process.command_runner import CommandResult, run_command

PACKAGE = "ralph-scaffold"
Installer = Literal["uv tool", "pipx", "uv", "pip"]
ASK_S, INSTALL_S = 120.0, 1_800.0
NO_PIP = "No module named pip"
NO_RELEASE = ("No matching distribution found", "was not found in the package registry")
"""What pip and uv say about a package that their index does not have."""


class UpdateError(ScaffoldError):
    """The installer could not be asked, or did not install what is newer."""


class Installation(Struct, frozen=True, kw_only=True):
    """The installed package that this process runs."""

    version: str
    installer: Installer
    origin: str = ""
    """The address of the file, folder or repository that it was installed from; empty for a package index."""
    editable: bool = False

    @property
    def update_command(self) -> tuple[str, ...]:
        """The command that installs the newest release in its place."""
        match self.installer:
            case "uv tool":
                return ("uv", "tool", "upgrade", PACKAGE)
            case "pipx":
                return ("pipx", "upgrade", PACKAGE)
            case "uv":
                return ("uv", "pip", "install", "--python", sys.executable, "--upgrade", PACKAGE)
            case "pip":
                return (sys.executable, "-m", "pip", "install", "--upgrade", PACKAGE)


def find_installation() -> Installation:
    """Return how the package was installed, by the records that its installer keeps."""
    found, prefix = distribution(PACKAGE), Path(sys.prefix)
    installer: Installer = "uv" if (found.read_text("INSTALLER") or "").strip() == "uv" else "pip"
    if (prefix / "uv-receipt.toml").is_file():
        installer = "uv tool"
    elif (prefix / "pipx_metadata.json").is_file():
        installer = "pipx"
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    editable = bool(origin.get("dir_info", {}).get("editable", False))
    return Installation(version=found.version, installer=installer, origin=origin.get("url", ""), editable=editable)


async def newer_version(installation: Installation) -> str:
    """Return the version that an update would install; empty if the installed one is the newest.

    The installer is asked, which knows the package index, mirrors and proxies of the user. Raises UpdateError.
    """
    if installation.installer in {"pip", "pipx"}:
        command = (sys.executable, "-m", "pip", "install", *("--dry-run", "--no-deps", "--upgrade", "--quiet"))
        done = await _run_installer((*command, "--disable-pip-version-check", "--report", "-", PACKAGE))
        if done.exit_code == 0:
            planned = [each["metadata"] for each in json.loads(done.stdout)["install"]]
            return next((str(each["version"]) for each in planned), "")
        if NO_PIP not in done.stderr.decode(errors="replace"):
            raise _update_error(done)
    arguments = ("--dry-run", "--no-deps", "--upgrade", "--refresh-package", PACKAGE, "--python", sys.executable)
    done = await _run_installer(("uv", "pip", "install", *arguments, PACKAGE))
    if done.exit_code != 0:
        raise _update_error(done)
    lines = done.stderr.decode(errors="replace").splitlines()
    return next((line.partition("==")[2] for line in lines if line.strip().startswith(f"+ {PACKAGE}==")), "")


async def install_newest(installation: Installation) -> None:
    """Let the installer put the newest release in place; UpdateError if it fails."""
    done = await _run_installer(installation.update_command, timeout_s=INSTALL_S)
    if done.exit_code != 0:
        raise _update_error(done)


def other_processes() -> tuple[int, ...]:
    """Return the pids of other processes that run from this installation; empty where the system does not tell."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        program = [os.fsdecode(word) for word in words[:4]]
        if program[:1] == [sys.executable] and "scaffold" in program and int(entry.parent.name) != os.getpid():
            found.append(int(entry.parent.name))
    return tuple(sorted(found))


async def _run_installer(command: Sequence[str], timeout_s: float = ASK_S) -> CommandResult:
    if shutil.which(command[0]) is None:
        raise UpdateError(f"`{command[0]}`, which installed this program, is not on PATH", "Add it to PATH.")
    return await run_command(command, cwd=Path.cwd(), env=os.environ, timeout_s=timeout_s)


def _update_error(done: CommandResult) -> UpdateError:
    text = (done.stderr or done.stdout).decode(errors="replace").strip()
    if any(words in text for words in NO_RELEASE):
        return UpdateError(
            f"the package index has no release of {PACKAGE}", "Check the index that your installer uses."
        )
    if done.timed_out:
        return UpdateError("the installer did not answer in time", "Check the connection, then try again.")
    return UpdateError(f"the installer failed: {text.splitlines()[-1] if text else 'no output'}", "Fix that first.")
