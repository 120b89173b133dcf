"""Configuration files, those of tiers included: their text parsed to settings, each with the line that sets it."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from scaffold.config.schema.parsers import ConfigValue
from scaffold.config.schema.table import SETTINGS, find_setting
from scaffold.config.schema.tier_settings import (
    BUILT_IN_TIERS,
    FIELDS,
    NAME_RULE,
    is_tier_name,
    is_tier_section,
    require_complete,
)
from scaffold.core.errors import PlanInvalid, UsageError
from scaffold.plan.message_text import SpellingHints
from scaffold.plan.text.parse_tree import ListNode, MappingNode, PositionedNode, ScalarNode, parse_positioned

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
    try:
        root = parse_positioned(text, name=str(path))
    except PlanInvalid as error:
        raise UsageError(error.what, error.fix) from error
    values: dict[str, SettingValue] = {}
    for name, line, given in _setting_leaves(root, section, path):
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
        hint = SpellingHints(SETTINGS).hint(name)
        raise UsageError(f"there is no setting `{name}`", f"{hint}`scaffold config` lists all of them.")
    return None if given is None else setting.parse(given)


def _setting_leaves(node: PositionedNode, name: str, path: Path) -> Iterator[tuple[str, int, object]]:
    """Yield (dotted name, line, value or list) for each setting below `node`."""
    match node:
        case ScalarNode():
            if node.value is not None or find_setting(name):  # an empty section sets nothing
                yield name, node.mark.line, node.value
        case MappingNode(entries=entries):
            for key, value in entries:
                below = _setting_name(name, key, path)
                setting = find_setting(below)
                if setting is not None and setting.is_list and isinstance(value, ListNode):
                    yield below, key.mark.line, _list_entries(below, value, path)
                else:
                    yield from _setting_leaves(value, below, path)
        case ListNode(mark=mark):
            named = f"`{name}`" if name else "the configuration"
            raise UsageError(f"{path}:{mark.line}: {named} is a list", "Write `key: value` lines.")


def _list_entries(name: str, listing: ListNode, path: Path) -> list[str]:
    """Return the entries of a list as written; raise UsageError with the line of the first invalid one."""
    entries = []
    for item in listing.items:
        origin = f"{path}:{item.mark.line}"
        if not isinstance(item, ScalarNode) or item.value is None:
            what = f"{origin}: an entry of `{name}` must be text"
            raise UsageError(what, "Write it on one line, in quotes if it contains a colon and a space.")
        validate_setting(name, [item.written], origin)
        entries.append(item.written)
    return entries


def _setting_name(name: str, key: PositionedNode, path: Path) -> str:
    if not isinstance(key, ScalarNode):
        raise UsageError(f"{path}:{key.mark.line}: a key must be one word", "Write `key: value` lines.")
    below = f"{name}.{key.written}" if name else key.written
    is_section = is_tier_section(below) or any(each.startswith(f"{below}.") for each in SETTINGS)
    if not (is_section or find_setting(below) or find_setting(f"{below}.profile")):
        section = below.rpartition(".")[0]
        depth = below.count(".") + 1
        settings = [*SETTINGS, *(f"{section}.{field}" for field in FIELDS if is_tier_section(section))]
        known = [".".join(each.split(".")[:depth]) for each in settings if each.startswith(section)]
        hint = SpellingHints(known).hint(below)
        what = f"{path}:{key.mark.line}: there is no setting `{below}`"
        raise UsageError(what, f"{hint}`scaffold config` lists all of them.")
    return below


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
