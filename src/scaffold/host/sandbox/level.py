"""Detect the strongest sandbox that works on this machine, by trying it, and cache the result."""

import asyncio
import contextlib
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import assert_never

import msgspec
from msgspec import Struct

from scaffold.host.atomic_files import write_atomic
from scaffold.host.child_environment import child_environment
from scaffold.host.leftovers import temporary_prefix
from scaffold.host.process_identity import own_identity
from scaffold.host.sandbox import bubblewrap, seccomp
from scaffold.host.sandbox.confinement import Confinement, Level, SandboxSpec
from scaffold.host.sandbox.launch import LaunchSpec, prepare_launch
from scaffold.host.startup import importing

LEVEL_CACHE = "sandbox.json"
"""The file with this machine's sandbox level, in the user's cache."""
PROBE_SCRIPT = 'true > "$1/here" && ! (cat "$2/secret" || true > "$2/there") >/dev/null 2>&1'
"""Succeeds if it can write inside and can neither read nor write next to it."""
PROBE_TIMEOUT_S = 20.0
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
"""Settings that forbid user namespaces: file, forbidding value, and the sysctl setting that allows them."""
CONTAINERS = ("/.dockerenv", "/run/.containerenv")
CONTAINER_FLAGS = (
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
)


class DetectedLevel(Struct, frozen=True):
    """The sandbox level of this machine; `problem` and `fix` say why it is not the best one, empty if it is."""

    level: Level
    problem: str = ""
    fix: str = ""
    program: str = ""
    """At level `bubblewrap`: the path of the working bubblewrap; else empty."""


class _CachedLevel(Struct, frozen=True):
    machine: str
    finding: DetectedLevel


def level_limits(level: Level) -> tuple[str, ...]:
    """Return what commands lack at a level on this machine, or what it does not confine."""
    match level:
        case "bubblewrap":
            return ()
        case "landlock":
            with importing():
                from scaffold.host.sandbox.landlock import sandboxed_command as landlock
            if landlock.has_broker():
                return ("no Unix sockets, no terminals", "TCP ports are shared with this machine")
            return (
                "no network, not even servers on 127.0.0.1",
                "no shared memory, so no process pools",
                "no new entries at the top of your own checkout",
            )
        case "seatbelt":
            return ("no network, not even servers on 127.0.0.1",)
        case "none":
            return ("commands reach everything that you can, also the Unix sockets of other programs",)
        case never:
            assert_never(never)


async def detect_level(
    environ: Mapping[str, str], *, cache: Path | None = None, programs: Sequence[Path] | None = None
) -> DetectedLevel:
    """Return the strongest level that works here, determined by trying it; raises nothing.

    `programs` are the bubblewraps to try, preferred first; None: the installed ones. The result is cached in the file
    `cache` and valid while user, boot, kernel, interpreter, namespaces and these programs stay the same.
    """
    programs = bubblewrap.programs() if programs is None else programs
    tried = " ".join(f"{program} {program.stat().st_mtime_ns}" for program in programs)
    user = f"{own_identity().boot} {os.getuid()}"
    # All that the result depends on.
    machine = f"{user} {platform.release()} {tried} {sys.executable} {_own_restrictions()}"
    if cache and (cached := _read_cache(cache, machine)):
        return cached
    if sys.platform == "darwin":
        reason = f"{SEATBELT} is missing"
        if os.access(SEATBELT, os.X_OK):
            reason = await _failure_reason("seatbelt", environ)
        fix = f"find out why {SEATBELT}, a part of macOS, does not start"
        finding = DetectedLevel("none", reason, fix) if reason else DetectedLevel("seatbelt")
    else:
        finding = await _detect_linux(environ, programs)
    if cache:
        with contextlib.suppress(OSError):
            write_atomic(cache, msgspec.json.encode(_CachedLevel(machine, finding)))
    return finding


def _read_cache(cache: Path, machine: str) -> DetectedLevel | None:
    try:
        cached = msgspec.json.decode(cache.read_bytes(), type=_CachedLevel)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return cached.finding if cached.machine == machine else None


def _own_restrictions() -> str:
    # A container may share this machine and its cache with us.
    try:
        namespaces = [str(Path("/proc/self/ns", name).readlink()) for name in ("user", "mnt")]
        status = Path("/proc/self/status").read_text("utf-8").splitlines()
    except OSError:  # not Linux
        return ""
    filters = (line.replace("\t", "") for line in status if line.startswith(("NoNewPrivs:", "Seccomp_filters:")))
    return " ".join((*namespaces, *filters))


async def _detect_linux(environ: Mapping[str, str], programs: Sequence[Path]) -> DetectedLevel:
    if not seccomp.is_supported():
        problem = f"there is no seccomp filter for {platform.machine()} processors"
        return DetectedLevel("none", problem, "use a machine with an x86-64 or 64-bit ARM processor")
    reasons = []
    for program in map(str, programs):
        reason = await _failure_reason("bubblewrap", environ, program)
        if not reason:
            return DetectedLevel("bubblewrap", program=program)
        reasons.append(reason)
    reason = reasons[0] if reasons else "bubblewrap is not installed"
    fix = _likely_fix(programs)
    with importing():
        from scaffold.host.sandbox.landlock import sandboxed_command as landlock
    weaker = landlock.unsupported_reason() or await _failure_reason("landlock", environ)
    if weaker:
        return DetectedLevel("none", f"{reason.rstrip('.')}; {weaker}", fix)
    weakness = landlock.weakness()
    return DetectedLevel("landlock", f"{reason.rstrip('.')}; {weakness}" if weakness else reason, fix)


async def _failure_reason(level: Level, environ: Mapping[str, str], program: str = "") -> str:
    """Run a test command at `level` (with the bubblewrap `program`); return why that fails, empty if it works."""
    try:
        with tempfile.TemporaryDirectory(prefix=temporary_prefix(), dir=_real_temporary_folder()) as folder:
            return await _probe_level(level, program, Path(folder), environ)
    except OSError as error:
        return f"testing {level} failed: {error.strerror or error}"


def _real_temporary_folder() -> str:
    # The paths of a confinement must be free of symlinks, and on macOS the temporary folder is behind one.
    return os.path.realpath(tempfile.gettempdir())


async def _probe_level(level: Level, program: str, folder: Path, environ: Mapping[str, str]) -> str:
    inside, beside, temporary = (folder / name for name in ("inside", "beside", "temporary"))
    for each in (inside, beside, temporary):
        each.mkdir()
    (beside / "secret").write_text("not readable inside")
    confinement = Confinement(writable=(inside,), temporary=temporary, hidden=(beside,))
    command = ["/bin/sh", "-c", PROBE_SCRIPT, "sh", str(inside), str(beside)]
    sandbox = SandboxSpec(level, confinement, program=program)
    with prepare_launch(sandbox, command, inside, child_environment(environ)) as launch:
        code, stderr = await _run_probe(launch, inside)
    if code == 0:
        return ""
    lines = stderr.decode(errors="replace").strip().splitlines()
    return f"{level} does not work here: {lines[0]}" if lines else f"{level} does not confine a command here"


async def _run_probe(launch: LaunchSpec, folder: Path) -> tuple[int | None, bytes]:
    """Run the launch command; return its exit code, None after a timeout, and its stderr."""
    process = await asyncio.create_subprocess_exec(  # noqa: TID251 - `host` starts processes
        *launch.argv,
        cwd=folder,
        env=launch.env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=[end.fileno() for end in launch.passed],
    )
    launch.hand_over()
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            _, stderr = await process.communicate()
    except TimeoutError:
        return None, b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, stderr


def _likely_fix(programs: Sequence[Path]) -> str:
    if not programs:
        return next((f"install it: {line}" for path, line in INSTALLERS if Path(path).exists()), "install bubblewrap")
    for path, value, setting in SWITCHES:
        # Each kernel has only some of these files.
        with contextlib.suppress(OSError):
            if Path(path).read_text("ascii").strip() == value:
                keep = "to keep the setting, write it to /etc/sysctl.d"
                return f"allow user namespaces: sudo sysctl -w {setting}; {keep}"
    if any(Path(path).exists() for path in CONTAINERS):
        return f"start the container with {CONTAINER_FLAGS}"
    return f"run `{programs[0]} --unshare-user --ro-bind / / --proc /proc true` and fix the error it reports"
