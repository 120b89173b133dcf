"""One layer of configuration: the text of a file as settings, each with the line that sets it."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from scaffold.config.schema import CHECKS, LISTS, Setting
from scaffold.core.errors import PlanInvalid, UsageError
from scaffold.plan.message_text import SpellingHints
from scaffold.plan.text.positioned import (
    ListNode,
    MappingNode,
    PositionedNode,
    ScalarNode,
    TextPosition,
    parse_positioned,
)


class SettingValue(Struct, frozen=True):
    """A setting's value and who set it: `built-in`, `FILE:LINE`, a variable or a flag."""

    value: Setting
    origin: str


def read_settings(path: Path) -> dict[str, SettingValue]:
    """Return what a configuration file sets, by dotted name; nothing if there is no such file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}", "Correct the file, or move it away.") from error
    return parse_settings(decode_config(content, path), path)


def decode_config(content: bytes, path: Path) -> str:
    """Return the text of a configuration file; UsageProblem if it is none."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} cannot be read: {error}", "Correct the file, or move it away.") from error


def parse_settings(text: str, path: Path) -> dict[str, SettingValue]:
    """Return what the text of a configuration file sets; UsageProblem with `path` and line for the first mistake."""
    try:
        root = parse_positioned(text, name=str(path))
    except PlanInvalid as error:
        raise UsageError(error.what, error.fix) from error
    values: dict[str, SettingValue] = {}
    for name, line, given in _leaves(root, "", path):
        origin = f"{path}:{line}"
        if name in values:
            raise UsageError(f"{origin}: `{name}` is set twice", "Keep one of the two.")
        values[name] = validate_setting(name, given, origin)
    return values


def validate_setting(name: str, given: object, origin: str) -> SettingValue:
    """Return a setting as it is kept; UsageProblem that names `origin` if it will not do."""
    try:
        return SettingValue(check_setting(name, given), origin)
    except ValueError as error:
        raise UsageError(f"{origin}: `{name}` must be {error}", f"It is {given!r} now: change it.") from error
    except UsageError as problem:
        raise UsageError(f"{origin}: {problem.what}", problem.fix) from problem


def check_setting(name: str, given: object) -> Setting:
    """Return a setting as it is kept; UsageProblem if nobody knows the name, ValueError if the value will not do."""
    check = CHECKS.get(name)
    if check is None:
        hint = SpellingHints(CHECKS).hint(name)
        raise UsageError(f"there is no setting `{name}`", f"{hint}`scaffold config` lists all of them.")
    return None if given is None else check(given)


def _leaves(node: PositionedNode, name: str, path: Path) -> Iterator[tuple[str, int, object]]:
    """Yield what is set below `node`: the dotted name, the line, and the value or the list of values."""
    match node:
        case ScalarNode():
            if node.value is not None or name in CHECKS:  # a section that is empty sets nothing
                yield name, node.mark.line, node.value
        case MappingNode(entries=entries):
            for key, value in entries:
                below = _setting_name(name, key, path)
                if below in LISTS and isinstance(value, ListNode):
                    yield below, key.mark.line, _entries(below, value, path)
                else:
                    yield from _leaves(value, below, path)
        case ListNode(mark=mark):
            raise UsageError(f"{path}:{mark.line}: {_named(name)} is a list", "Write `key: value` lines.")


def _entries(name: str, listing: ListNode, path: Path) -> list[str]:
    """Return the entries of a list as they are written; UsageProblem with the line of the first that will not do."""
    entries = []
    for item in listing.items:
        origin = f"{path}:{item.mark.line}"
        if not isinstance(item, ScalarNode) or item.value is None:
            what = f"{origin}: an entry of `{name}` must be a text"
            raise UsageError(what, "Write it on one line; in quotes if it has a colon and a blank.")
        validate_setting(name, [item.written], origin)
        entries.append(item.written)
    return entries


def _setting_name(name: str, key: PositionedNode, path: Path) -> str:
    if not isinstance(key, ScalarNode):
        raise UsageError(f"{path}:{key.mark.line}: a key must be one word", "Write `key: value` lines.")
    below = f"{name}.{key.written}" if name else key.written
    if below not in CHECKS and not any(known.startswith(f"{below}.") for known in CHECKS):
        raise _unknown(below, key.mark, path)
    return below


def _unknown(name: str, mark: TextPosition, path: Path) -> UsageError:
    section = name.rpartition(".")[0]
    depth = name.count(".") + 1
    known = [".".join(each.split(".")[:depth]) for each in CHECKS if each.startswith(section)]
    hint = SpellingHints(known).hint(name)
    what = f"{path}:{mark.line}: there is no setting `{name}`"
    return UsageError(what, f"{hint}`scaffold config` lists all of them.")


def _named(name: str) -> str:
    return f"`{name}`" if name else "the configuration"
