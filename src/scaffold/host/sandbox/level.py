"""Which sandbox this machine offers: tried for real, the strongest first, and remembered until something changes."""

import asyncio
import contextlib
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from scaffold.host.environment import child_environment
from scaffold.host.files import write_atomic
from scaffold.host.identity import own_identity
from scaffold.host.sandbox import bubblewrap, landlock, seccomp
from scaffold.host.sandbox.confinement import Confinement, Enclosure, Level
from scaffold.host.sandbox.entry import Entry, entrance

TRIAL = 'true > "$1/here" && ! (cat "$2/secret" || true > "$2/there") >/dev/null 2>&1'
"""Writes where it may, and must neither read nor write what lies beside it."""
TRIAL_S = 20.0
SEATBELT = Path("/usr/bin/sandbox-exec")

INSTALLERS = (
    ("/usr/bin/apt-get", "sudo apt-get install bubblewrap"),
    ("/usr/bin/dnf", "sudo dnf install bubblewrap"),
    ("/usr/bin/pacman", "sudo pacman -S bubblewrap"),
    ("/usr/bin/zypper", "sudo zypper install bubblewrap"),
    ("/sbin/apk", "apk add bubblewrap"),
    ("/run/current-system/sw/bin/nix-env", "add pkgs.bubblewrap to environment.systemPackages"),
)
SWITCHES = (
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
)
"""What forbids user namespaces: where, at which value, and what `sysctl` is told against it."""
CONTAINERS = ("/.dockerenv", "/run/.containerenv")
CONTAINER_FLAGS = (
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
)


class Finding(Struct, frozen=True):
    """What holds commands on this machine; why nothing better does and what to do about it, empty for the best."""

    level: Level
    trouble: str = ""
    fix: str = ""


class _Remembered(Struct, frozen=True):
    machine: str
    finding: Finding


async def find_level(
    environ: Mapping[str, str], *, cache: Path | None = None, folders: Sequence[str] = bubblewrap.FOLDERS
) -> Finding:
    """Return the strongest level that works here, tried for real; raises nothing.

    The finding is kept in the file `cache`, and believed as long as it is the same user, boot and bubblewrap. That is
    looked for in `folders`.
    """
    program = bubblewrap.find(folders)
    machine = _machine(program)
    if cache and (known := _recall(cache, machine)):
        return known
    finding = await _seatbelt(environ) if sys.platform == "darwin" else await _linux(environ, program)
    if cache:
        with contextlib.suppress(OSError):
            write_atomic(cache, msgspec.json.encode(_Remembered(machine, finding)))
    return finding


def _recall(cache: Path, machine: str) -> Finding | None:
    try:
        remembered = msgspec.json.decode(cache.read_bytes(), type=_Remembered)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return remembered.finding if remembered.machine == machine else None


def _machine(program: Path | None) -> str:
    """Return what a finding depends on, in one line."""
    changed = program.stat().st_mtime_ns if program else 0
    return f"{own_identity().boot} {os.getuid()} {platform.release()} {program} {changed} {sys.executable}"


async def _linux(environ: Mapping[str, str], program: Path | None) -> Finding:
    if not seccomp.is_known():
        trouble = f"no filter of system calls is known for {platform.machine()} processors"
        return Finding("none", trouble, "use a machine with an x86-64 or 64-bit ARM processor")
    reason = await _failure("bubblewrap", environ) if program else "bubblewrap is not installed"
    if not reason:
        return Finding("bubblewrap")
    fix = _userns_fix() if program else _install_fix()
    weaker = landlock.usable() or await _failure("landlock", environ)
    if weaker:
        return Finding("none", f"{reason}; {weaker}", fix)
    weakness = landlock.weakness()
    return Finding("landlock", f"{reason}; {weakness}" if weakness else reason, fix)


async def _seatbelt(environ: Mapping[str, str]) -> Finding:
    reason = await _failure("seatbelt", environ) if os.access(SEATBELT, os.X_OK) else f"{SEATBELT} is missing"
    return (
        Finding("none", reason, f"look why {SEATBELT} does not start; it is a part of macOS")
        if reason
        else Finding("seatbelt")
    )


async def _failure(level: Level, environ: Mapping[str, str]) -> str:
    """Hold a small command at `level`; return why that fails, nothing if it works."""
    try:
        with tempfile.TemporaryDirectory(prefix="scaffold-sandbox-", dir=_temporary()) as folder:
            return await _trial(level, Path(folder), environ)
    except OSError as error:
        return f"{level} could not be tried: {error.strerror or error}"


def _temporary() -> str:
    """Return the system's temporary folder, without links."""
    return os.path.realpath(tempfile.gettempdir())


async def _trial(level: Level, folder: Path, environ: Mapping[str, str]) -> str:
    inside, beside, temporary = (folder / name for name in ("inside", "beside", "temporary"))
    for each in (inside, beside, temporary):
        each.mkdir()
    (beside / "secret").write_text("known to nobody inside")
    confinement = Confinement(writable=(inside,), temporary=temporary, hidden=(beside,))
    command = ["/bin/sh", "-c", TRIAL, "sh", str(inside), str(beside)]
    with entrance(Enclosure(level, confinement), command, inside, child_environment(environ)) as entry:
        code, said = await _ended(entry, inside)
    if code == 0:
        return ""
    lines = said.decode(errors="replace").strip().splitlines()
    return f"{level} does not work here: {lines[0]}" if lines else f"{level} does not hold a command here"


async def _ended(entry: Entry, folder: Path) -> tuple[int | None, bytes]:
    """Run what leads into a sandbox and return how it ended, None if it did not, and what it said."""
    process = await asyncio.create_subprocess_exec(  # noqa: TID251 - `host` starts processes
        *entry.argv,
        cwd=folder,
        env=entry.env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=[end.fileno() for end in entry.passed],
    )
    entry.hand_over()
    try:
        async with asyncio.timeout(TRIAL_S):
            _, said = await process.communicate()
    except TimeoutError:
        return None, b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, said


def _install_fix() -> str:
    return next((f"install it: {line}" for path, line in INSTALLERS if Path(path).exists()), "install bubblewrap")


def _userns_fix() -> str:
    """Return what to do where bubblewrap is there and does not work, as well as can be told from here."""
    for path, value, setting in SWITCHES:
        if _content(path) == value:
            return (
                f"allow user namespaces: sudo sysctl -w {setting}, and write the setting into /etc/sysctl.d to keep it"
            )
    if any(Path(path).exists() for path in CONTAINERS):
        return f"start the container with {CONTAINER_FLAGS}"
    return "run `bwrap --unshare-user --ro-bind / / --proc /proc true` and mend what it says"


def _content(path: str) -> str:
    try:
        return Path(path).read_text("ascii").strip()
    except OSError:
        return ""
