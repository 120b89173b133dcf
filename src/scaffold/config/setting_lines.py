"""The settings in the text of a configuration file, each with its line."""

from collections.abc import Callable, Iterator
from pathlib import Path

from scaffold.config.schema.executor_rows import names_below
from scaffold.config.schema.table import SETTINGS, find_setting, names_beside
from scaffold.core.errors import PlanInvalid, UsageError
from scaffold.plan.spelling_hints import SpellingHints
from scaffold.plan.text.parse_tree import ListNode, MappingNode, PositionedNode, ScalarNode, parse_positioned

EntryCheck = Callable[[str, object, str], object]
"""Raises UsageError for an invalid value of a setting, given its origin."""


def setting_lines(text: str, path: Path, section: str, check: EntryCheck) -> Iterator[tuple[str, int, object]]:
    """Yield the dotted name, line, and value or list of each setting; each entry of a list has passed `check`.

    Raises UsageError with path and line for the first mistake.
    """
    try:
        root = parse_positioned(text, name=str(path))
    except PlanInvalid as error:
        raise UsageError(error.what, error.fix) from error
    yield from _setting_leaves(root, section, path, check)


def _setting_leaves(
    node: PositionedNode, name: str, path: Path, check: EntryCheck
) -> Iterator[tuple[str, int, object]]:
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
                    yield below, key.mark.line, _list_entries(below, value, path, check)
                else:
                    yield from _setting_leaves(value, below, path, check)
        case ListNode(mark=mark):
            named = f"`{name}`" if name else "the configuration"
            raise UsageError(f"{path}:{mark.line}: {named} is a list", "Write `key: value` lines.")


def _list_entries(name: str, listing: ListNode, path: Path, check: EntryCheck) -> list[str]:
    """Return the entries of a list as written; raise UsageError with the line of the first invalid one."""
    entries = []
    for item in listing.items:
        origin = f"{path}:{item.mark.line}"
        if not isinstance(item, ScalarNode) or item.value is None:
            what = f"{origin}: an entry of `{name}` must be text"
            raise UsageError(what, "Write it on one line, in quotes if it contains a colon and a space.")
        check(name, [item.written], origin)
        entries.append(item.written)
    return entries


def _setting_name(name: str, key: PositionedNode, path: Path) -> str:
    if not isinstance(key, ScalarNode):
        raise UsageError(f"{path}:{key.mark.line}: a key must be one word", "Write `key: value` lines.")
    below = f"{name}.{key.written}" if name else key.written
    is_section = names_below(below) or any(each.startswith(f"{below}.") for each in SETTINGS)
    if not (is_section or find_setting(below) or find_setting(f"{below}.profile")):
        section = below.rpartition(".")[0]
        depth = below.count(".") + 1
        known = [".".join(each.split(".")[:depth]) for each in names_beside(below) if each.startswith(section)]
        hint = SpellingHints(known).hint(below)
        what = f"{path}:{key.mark.line}: there is no setting `{below}`"
        raise UsageError(what, f"{hint}`scaffold config` lists all of them.")
    return below
