"""User directories."""

from pathlib import Path

import pytest

from scaffold.host.user_dirs import UserDirs, user_dirs

HOME = {"HOME": "/home/ann"}


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        (HOME | {"SCAFFOLD_HOME": "/s"}, "linux", ("/s/config", "/s/data", "/s/cache")),
        (HOME | {"SCAFFOLD_HOME": "/s"}, "darwin", ("/s/config", "/s/data", "/s/cache")),
        (
            HOME,
            "linux",
            ("/home/ann/.config/scaffold", "/home/ann/.local/share/scaffold", "/home/ann/.cache/scaffold"),
        ),
        (
            HOME | {"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "/h"},
            "linux",
            ("/c/scaffold", "/d/scaffold", "/h/scaffold"),
        ),
        (
            HOME,
            "darwin",
            (
                "/home/ann/Library/Preferences/scaffold",
                "/home/ann/Library/Application Support/scaffold",
                "/home/ann/Library/Caches/scaffold",
            ),
        ),
    ],
)
def test_directories_follow_the_environment_and_the_platform(environ, platform, expected):
    assert user_dirs(environ, platform=platform) == UserDirs(*map(Path, expected))


def test_a_relative_xdg_directory_is_ignored():
    assert user_dirs(HOME | {"XDG_DATA_HOME": "data"}, platform="linux").data == Path("/home/ann/.local/share/scaffold")


def test_a_relative_scaffold_home_becomes_absolute():
    assert user_dirs({"SCAFFOLD_HOME": "state"}).cache == Path.cwd() / "state" / "cache"
