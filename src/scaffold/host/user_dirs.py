"""The folders of a user's configuration, data and caches."""

import os
from pathlib import Path

from msgspec import Struct
from platformdirs import PlatformDirs


class UserDirs(Struct, frozen=True):
    """Absolute paths that may not exist yet."""

    config: Path
    data: Path
    cache: Path


def user_dirs() -> UserDirs:
    """Return the user's directories: all under SCAFFOLD_HOME if set, else the conventional ones of the platform."""
    if home := os.environ.get("SCAFFOLD_HOME"):
        root = Path(home).expanduser().absolute()
        return UserDirs(root / "config", root / "data", root / "cache")
    dirs = PlatformDirs("scaffold", appauthor=False)
    return UserDirs(dirs.user_config_path, dirs.user_data_path, dirs.user_cache_path)
