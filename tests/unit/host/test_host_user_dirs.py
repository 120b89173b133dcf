"""User directories."""

import sys
from pathlib import Path

import pytest

from scaffold.host.user_dirs import UserDirs, user_dirs

VARIABLES = ("SCAFFOLD_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")


@pytest.fixture
def set_environ(monkeypatch):
    def set_only(**variables):
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_only


def test_scaffold_home_holds_all_directories_and_becomes_absolute(set_environ):
    set_environ(SCAFFOLD_HOME="/s", XDG_DATA_HOME="/d")
    assert user_dirs() == UserDirs(Path("/s/config"), Path("/s/data"), Path("/s/cache"))
    set_environ(SCAFFOLD_HOME="state")
    assert user_dirs().cache == Path.cwd() / "state" / "cache"


def test_xdg_directories_are_used(set_environ):
    set_environ(XDG_CONFIG_HOME="/c", XDG_DATA_HOME="/d", XDG_CACHE_HOME="/h")
    assert user_dirs() == UserDirs(Path("/c/scaffold"), Path("/d/scaffold"), Path("/h/scaffold"))


@pytest.mark.skipif(sys.platform != "linux", reason="the conventions of Linux")
def test_the_home_has_the_conventional_directories(set_environ):
    set_environ(HOME="/home/ann", XDG_DATA_HOME="relative paths are ignored")
    home = Path("/home/ann")
    assert user_dirs() == UserDirs(home / ".config/scaffold", home / ".local/share/scaffold", home / ".cache/scaffold")
