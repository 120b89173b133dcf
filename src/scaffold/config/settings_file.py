"""Configuration files, those of tiers included: their text parsed to settings, each with the line that sets it."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from scaffold.config.schema.parsers import ConfigValue
from scaffold.config.schema.table import find_setting, names_beside
from scaffold.config.schema.tier_settings import BUILT_IN_TIERS, NAME_RULE, is_tier_name, require_complete
from scaffold.core.errors import UsageError
from scaffold.host.startup import importing
from scaffold.plan.spelling_hints import SpellingHints

FOLDER = "tiers"
SUFFIX = ".yaml"
OTHER_SUFFIXES = frozenset({".yml", ".YAML", ".YML", ".json", ".toml"})
"""Suffixes of files that look like tiers but are not read."""


class SettingValue(Struct, frozen=True):
    """A setting's value and its origin: `built-in`, `FILE:LINE`, a variable or a flag."""

    value: ConfigValue
    origin: str


def read_settings(path: Path) -> dict[str, SettingValue]:
    """Return the settings of a configuration file, by dotted name; none if the file does not exist.

    Raise UsageError with path and line for the first mistake.
    """
    return parse_settings(read_text(path), path)


def read_text(path: Path) -> str:
    """Return the text of a configuration file, empty if it does not exist; raise UsageError if it cannot be read."""
    try:
        return decode_config(path.read_bytes(), path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "Fix the file, or move it away.") from error


def decode_config(content: bytes, path: Path) -> str:
    """Return the text of a configuration file; raise UsageError if it is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} cannot be read: it is not UTF-8 text", "Fix the file, or move it away.") from error


def parse_settings(text: str, path: Path, section: str = "") -> dict[str, SettingValue]:
    """Return the settings in a configuration file's text; raise UsageError with path and line for the first mistake.

    `section` is the prefix of all its settings, such as `tiers.builder`.
    """
    if not text.strip():
        return {}
    with importing():  # most commands find no such file
        from scaffold.config.setting_lines import setting_lines
    values: dict[str, SettingValue] = {}
    for name, line, given in setting_lines(text, path, section, validate_setting):
        origin = f"{path}:{line}"
        # `a.b: 1` and `a: {b: 2}` name the same setting, which YAML itself does not notice.
        if name in values:
            raise UsageError(f"{origin}: `{name}` is set twice", "Keep one of the two.")
        values[name] = validate_setting(name, given, origin)
    return values


def validate_setting(name: str, given: object, origin: str) -> SettingValue:
    """Return a parsed value with its origin; raise UsageError naming `origin` if the value is invalid."""
    try:
        return SettingValue(parse_setting(name, given), origin)
    except ValueError as error:
        raise UsageError(f"{origin}: `{name}` must be {error}", f"Change the current value, {given!r}.") from error
    except UsageError as problem:
        raise UsageError(f"{origin}: {problem.what}", problem.fix) from problem


def parse_setting(name: str, given: object) -> ConfigValue:
    """Return the parsed value of a setting; raise UsageError for an unknown name, ValueError for an invalid value."""
    setting = find_setting(name)
    if setting is None:
        hint = SpellingHints(names_beside(name)).hint(name)
        raise UsageError(f"there is no setting `{name}`", f"{hint}`scaffold config` lists all of them.")
    return None if given is None else setting.parse(given)


@cache
def built_in_values() -> dict[str, SettingValue]:
    """Return the fields of the built-in tiers, by the names of their settings."""
    found: dict[str, SettingValue] = {}
    for tier in BUILT_IN_TIERS:
        path = Path(__file__).parent / FOLDER / f"{tier}.json"
        fields = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
        for field, value in fields.items():
            name = f"{FOLDER}.{tier}.{field}"
            found[name] = validate_setting(name, value, str(path))
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
