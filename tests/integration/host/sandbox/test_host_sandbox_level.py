"""Which sandbox this machine offers."""

import os
import sys

import msgspec
import pytest

from scaffold.host.sandbox.confinement import Level
from scaffold.host.sandbox.level import Finding, find_level

LOOK = """
import asyncio, os
import msgspec
from scaffold.host.sandbox.level import find_level
print(msgspec.json.encode(asyncio.run(find_level(os.environ))).decode())
"""


async def test_a_level_is_found_and_trouble_comes_with_its_mending():
    """BX-9"""
    finding = await find_level(os.environ)
    assert finding.level in Level.__args__
    assert bool(finding.trouble) == bool(finding.fix) == (finding.level not in {"bubblewrap", "seatbelt"})


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is Linux's")
async def test_without_bubblewrap_the_next_best_is_found_and_how_to_get_it():
    """BX-9"""
    finding = await find_level(os.environ, folders=())
    assert finding.level in {"landlock", "none"}
    assert finding.trouble.startswith("bubblewrap is not installed")
    assert "bubblewrap" in finding.fix


async def test_where_bubblewrap_cannot_run_it_is_said_why(inside):
    """BX-9: as in a container, no further namespace can be made in a sandbox."""
    finished = await inside([sys.executable, "-c", LOOK])
    finding = msgspec.json.decode(finished.stdout, type=Finding)
    assert finding.level in {"landlock", "none"}
    assert finding.trouble.startswith("bubblewrap does not work here: bwrap: ")
    assert finding.fix


async def test_a_finding_is_remembered_so_that_nothing_need_be_tried(tmp_path):
    cache = tmp_path / "deep" / "sandbox.json"
    finding = await find_level(os.environ, cache=cache)
    remembered = msgspec.json.decode(cache.read_bytes())
    remembered["finding"] = {"level": "none", "trouble": "remembered", "fix": "forget it"}
    cache.write_bytes(msgspec.json.encode(remembered))
    assert (await find_level(os.environ, cache=cache)).trouble == "remembered"
    cache.write_bytes(msgspec.json.encode(remembered | {"machine": "another"}))
    assert await find_level(os.environ, cache=cache) == finding


@pytest.mark.parametrize("rubbish", [b"", b"{", b"\xff\xfe", b'{"machine": 1}', b"[]", b"null"])
async def test_rubbish_in_the_place_of_a_finding_is_forgotten(tmp_path, rubbish):
    cache = tmp_path / "sandbox.json"
    cache.write_bytes(rubbish)
    assert (await find_level(os.environ, cache=cache)).level in Level.__args__
    assert msgspec.json.decode(cache.read_bytes())["finding"]


async def test_a_finding_that_cannot_be_kept_is_told_all_the_same(tmp_path):
    (tmp_path / "file").touch()
    assert (await find_level(os.environ, cache=tmp_path / "file" / "sandbox.json")).level in Level.__args__


async def test_an_environment_with_nothing_in_it_is_enough():
    assert (await find_level({})).level in Level.__args__
