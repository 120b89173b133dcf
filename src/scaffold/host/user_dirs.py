"""The folders of a user's configuration, data and caches."""

import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class UserDirs(Struct, frozen=True):
    """Absolute paths that may not exist yet."""

    config: Path
    data: Path
    cache: Path


def user_dirs(environ: Mapping[str, str], *, platform: str = sys.platform) -> UserDirs:
    """Return the user's directories: all under SCAFFOLD_HOME if set, else the conventional ones of `platform`."""
    if home := environ.get("SCAFFOLD_HOME"):
        root = Path(home).expanduser().absolute()
        return UserDirs(root / "config", root / "data", root / "cache")
    user = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    if platform == "darwin":
        library = user / "Library"
        return UserDirs(
            library / "Preferences" / "scaffold",
            library / "Application Support" / "scaffold",
            library / "Caches" / "scaffold",
        )
    return UserDirs(
        _xdg(environ, "XDG_CONFIG_HOME", user / ".config"),
        _xdg(environ, "XDG_DATA_HOME", user / ".local" / "share"),
        _xdg(environ, "XDG_CACHE_HOME", user / ".cache"),
    )


def _xdg(environ: Mapping[str, str], name: str, default: Path) -> Path:
    """Return our folder in the directory that variable `name` gives; XDG says to ignore relative paths."""
    given = Path(environ.get(name, ""))
    return (given if given.is_absolute() else default) / "scaffold"
