"""Where a user's configuration, data and cached files live."""

import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class Dirs(Struct, frozen=True):
    """Absolute paths; none of them need exist yet."""

    config: Path
    data: Path
    cache: Path


def user_dirs(environ: Mapping[str, str], *, platform: str = sys.platform) -> Dirs:
    """Return the directories `environ` asks for: all under SCAFFOLD_HOME if set, else where `platform` keeps them."""
    if home := environ.get("SCAFFOLD_HOME"):
        root = Path(home).expanduser().absolute()
        return Dirs(root / "config", root / "data", root / "cache")
    user = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    if platform == "darwin":
        library = user / "Library"
        return Dirs(
            library / "Preferences" / "scaffold",
            library / "Application Support" / "scaffold",
            library / "Caches" / "scaffold",
        )
    return Dirs(
        _xdg(environ, "XDG_CONFIG_HOME", user / ".config"),
        _xdg(environ, "XDG_DATA_HOME", user / ".local" / "share"),
        _xdg(environ, "XDG_CACHE_HOME", user / ".cache"),
    )


def _xdg(environ: Mapping[str, str], name: str, default: Path) -> Path:
    """Return the directory `name` gives; the XDG specification tells us to ignore relative ones."""
    given = Path(environ.get(name, ""))
    return (given if given.is_absolute() else default) / "scaffold"
