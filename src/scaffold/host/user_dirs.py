"""The folders of a user's configuration, data and caches."""

import os
import sys
from pathlib import Path

from msgspec import Struct

from scaffold.host.startup import importing

XDG_DEFAULTS = {"CONFIG": "~/.config", "DATA": "~/.local/share", "CACHE": "~/.cache"}


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
    if sys.platform == "linux":  # short, and what it saves is a tenth of the time that `status` may take
        named = {kind: os.environ.get(f"XDG_{kind}_HOME", "") for kind in XDG_DEFAULTS}
        # A relative path is invalid there, and is ignored.
        valid = (path if path.startswith("/") else XDG_DEFAULTS[kind] for kind, path in named.items())
        return UserDirs(*(Path(path).expanduser() / "scaffold" for path in valid))
    with importing():
        from platformdirs import PlatformDirs
    dirs = PlatformDirs("scaffold", appauthor=False)
    return UserDirs(dirs.user_config_path, dirs.user_data_path, dirs.user_cache_path)
