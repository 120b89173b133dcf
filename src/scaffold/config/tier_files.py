"""The files of tiers, one each: the built-in ones of this package, and those in the user's `tiers` folder."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from scaffold.config.schema.tier_settings import BUILT_IN_TIERS, NAME_RULE, is_tier_name, require_complete
from scaffold.config.settings_file import SettingValue, parse_settings, read_text
from scaffold.core.errors import UsageError

FOLDER = "tiers"
SUFFIX = ".yaml"
OTHER_SUFFIXES = frozenset({".yml", ".YAML", ".YML", ".json", ".toml"})
"""Of files that someone may take for tiers."""


@cache
def built_in_values() -> dict[str, SettingValue]:
    """Return the fields of the built-in tiers, by the names of their settings."""
    found: dict[str, SettingValue] = {}
    for tier in BUILT_IN_TIERS:
        path = Path(str(files("scaffold.config") / FOLDER / f"{tier}{SUFFIX}"))
        found |= parse_settings(path.read_text(encoding="utf-8"), path, f"{FOLDER}.{tier}")
    return found


def user_values(folder: Path) -> dict[str, SettingValue]:
    """Return the fields that the files of a user's folder set; raise UsageError with file and line for mistakes.

    A file about a built-in tier may set some of its fields; any other has to set all of them.
    """
    found: dict[str, SettingValue] = {}
    for path in _tier_files(folder):
        values = parse_settings(read_text(path), path, f"{FOLDER}.{path.stem}")
        if path.stem not in BUILT_IN_TIERS:
            held = {name.rpartition(".")[2]: each.value for name, each in values.items()}
            require_complete(path.stem, held, str(path))
        found |= values
    return found


def _tier_files(folder: Path) -> Iterator[Path]:
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}", "Fix the folder, or move it away.") from error
    for path in paths:
        if path.suffix in OTHER_SUFFIXES:
            raise UsageError(f"{path} is not read: files of tiers end in `{SUFFIX}`", "Rename it, or move it away.")
        if path.suffix != SUFFIX:
            continue
        if not is_tier_name(path.stem):
            raise UsageError(f"{path}: a tier cannot have this name", f"Rename the file: {NAME_RULE}.")
        yield path
