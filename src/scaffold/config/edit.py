"""Change one setting in a configuration file; comments, order and quotes stay."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import CommentMark, YAMLError
from ruamel.yaml.resolver import BaseResolver
from ruamel.yaml.scalarstring import DoubleQuotedScalarString
from ruamel.yaml.tokens import CommentToken

from scaffold.config.schema.parsers import ConfigValue
from scaffold.config.schema.table import SETTINGS
from scaffold.config.settings_file import parse_settings, read_text
from scaffold.core.errors import UsageError
from scaffold.host.contained_path import ContainedPath

NO_FOLDING = 2**30
"""Columns after which lines are folded."""


def set_in_file(file: ContainedPath, name: str, value: ConfigValue) -> bool:
    """Set `name` in a configuration file, in one step; return True.

    Raise UsageError if the file is faulty, or if an editor of YAML cannot change only this setting in it.
    """
    wanted = _parse_values(read_text(file.path), file.path) | {name: value}
    fix = f"Set `{name}` to {json.dumps(value, ensure_ascii=False)} there with an editor."
    return _edit_file(file, lambda text: with_setting(text, name, value), wanted, f"`{name}` cannot be set", fix)


def unset_in_file(file: ContainedPath, name: str) -> bool:
    """Remove `name` from a configuration file, in one step; return whether it was there.

    Raises as `set_in_file` does.
    """
    before = _parse_values(read_text(file.path), file.path)
    if name not in before:
        return False
    wanted = {key: value for key, value in before.items() if key != name}
    fix = f"Remove `{name}` there with an editor."
    return _edit_file(file, lambda text: without_setting(text, name), wanted, f"`{name}` cannot be removed", fix)


def _edit_file(
    file: ContainedPath, change: Callable[[str], str], wanted: Mapping[str, ConfigValue], failure: str, fix: str
) -> bool:
    """Write the changed text if the file then has the `wanted` settings, and return True; or raise UsageError."""
    path = file.path
    # The editor is checked by its result: only one setting may differ.
    try:
        after = change(read_text(path))
        is_right = _parse_values(after, path) == wanted
    except (YAMLError, UsageError):
        is_right, after = False, ""
    if not is_right:
        raise UsageError(f"{failure} in {path} without changing other settings", fix)
    try:
        file.top.mkdir(parents=True, exist_ok=True)
        file.write(after.encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "Make it writable, then try again.") from error
    return True


def with_setting(text: str, name: str, value: ConfigValue) -> str:
    """Return the YAML `text` of a configuration file with the setting `name` set to `value`."""

    def change(yaml: YAML, text: str) -> str:
        root = yaml.load(text)
        if root is None:  # comments alone, which belong to no node
            root = CommentedMap()
            _set_value(root, name, value)
            return text + _dump_yaml(yaml, root)
        _set_value(root, name, value)
        return _dump_yaml(yaml, root)

    return _with_line_ends(text, change)


def without_setting(text: str, name: str) -> str:
    """Return the YAML `text` of a configuration file without the setting `name`, and without a section left empty."""

    def change(yaml: YAML, text: str) -> str:
        root = yaml.load(text)
        _remove_key(root, name.split("."))
        return _dump_yaml(yaml, root) if root else ""

    return _with_line_ends(text, change)


def _with_line_ends(text: str, change: Callable[[YAML, str], str]) -> str:
    # ruamel.yaml would mix the file's line ends with its own.
    newline = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    if text and not text.endswith("\n"):
        text += "\n"
    yaml = YAML(typ="rt")
    yaml.Resolver = _AsWritten
    yaml.preserve_quotes = True
    yaml.width = NO_FOLDING
    yaml.explicit_start = text.startswith("---")
    nested = re.search(r"^( +)[^\s#-]", text, re.MULTILINE)
    entry = re.search(r"^( *)[^\s#-].*\n(?:\s*#.*\n|\s*\n)*( *)- ", text, re.MULTILINE)
    offset = max(0, len(entry[2]) - len(entry[1])) if entry else 2
    yaml.indent(mapping=len(nested[1]) if nested else 2, sequence=offset + 2, offset=offset)
    return change(yaml, text).replace("\n", newline)


def _remove_key(parent: CommentedMap, keys: Sequence[str]) -> None:
    key, *below = keys
    if below:
        _remove_key(parent[key], below)
    if not below or not parent[key]:
        del parent[key]


class _AsWritten(BaseResolver):
    """Gives plain scalars no type, so that they are written back as the user wrote them: `2.50`, `~`, `off`."""

    processing_version = (1, 2)

    def __init__(self, version: object = None, loader: object = None, loadumper: object = None) -> None:  # noqa: ARG002
        super().__init__(loader or loadumper)


def _dump_yaml(yaml: YAML, root: CommentedMap) -> str:
    stream = StringIO()
    yaml.dump(root, stream)
    return stream.getvalue()


def _set_value(root: CommentedMap, name: str, value: ConfigValue) -> None:
    *sections, key = name.split(".")
    parent, comments = root, None
    for section in sections:
        if not isinstance(parent.get(section), CommentedMap):
            _put_key(parent, section, CommentedMap(), comments)
        parent, comments = parent[section], parent.ca.items.get(section, [None, None, None, None])
    held = parent.get(key)
    if isinstance(held, CommentedSeq) and isinstance(value, tuple) and not held.fa.flow_style():
        _put_list(parent, name, value)
    elif isinstance(held, CommentedSeq) and held.ca.items:
        raise YAMLError("a list in brackets with comments inside")
    else:
        _put_key(parent, key, _yaml_node(value), comments)


def _put_key(parent: CommentedMap, key: str, node: Any, comments: list[Any] | None) -> None:
    """Set a key of a section; `comments` are those of the section `parent`, None for the file itself."""
    if key in parent or comments is None or not parent:
        parent[key] = node
        return
    # To the top: comments below the last key of a section may be about the next section.
    first = next(iter(parent))
    parent.insert(0, key, node)
    # ruamel.yaml keeps the comment above the first key of a section with the
    # section, so it has to move to that key by hand.
    if comments[3]:
        parent.ca.items.setdefault(first, [None, None, None, None])[1] = comments[3]
        comments[3] = parent.ca.comment = None


def _put_list(parent: CommentedMap, name: str, value: tuple[str, ...]) -> None:
    # The comment of a removed entry goes too; all others stay.
    key = name.rpartition(".")[2]
    old: CommentedSeq = parent[key]
    nodes: dict[str, Any] = {entry: DoubleQuotedScalarString(entry) for entry in value}
    beside: dict[str, str] = {}
    below: defaultdict[str, str] = defaultdict(str)
    owner = value[-1] if value else ""
    for index, node in enumerate(old):
        parsed = SETTINGS[name].parse([str(node)])
        entry = parsed[0] if isinstance(parsed, tuple) else ""
        comment, _, lines = old.ca.items[index][0].value.partition("\n") if index in old.ca.items else ("", "", "")
        if entry in nodes:
            nodes[entry], beside[entry], owner = node, comment, entry
        last = index == len(old) - 1  # comments below the last entry belong to what follows the list
        below[value[-1] if last and value else owner] += lines
    if not value:
        parent[key] = _yaml_node(())
        comments = parent.ca.items.setdefault(key, [None, None, None, None])
        # Lines between the key and its value would be lost with the value.
        above = "".join(f"{' ' * each.start_mark.column}{each.value}" for each in comments[3] or ())
        beside_key = comments[2].value.rstrip("\n") if comments[2] else ""
        comments[2:] = [_comment_token(beside_key, above, below[owner]), None]
        return
    parent[key] = new = CommentedSeq(nodes.values())
    for index, entry in enumerate(nodes):
        if comment := _comment_token(beside.get(entry, ""), below[entry]):
            new.ca.items[index] = [comment, None, None, None]


def _comment_token(beside: str, *below: str) -> CommentToken | None:
    """Return the token for a comment beside a node and the lines below it; None without either."""
    lines = "".join(below)
    return CommentToken(f"{beside}\n{lines}", CommentMark(0), None) if beside or lines else None


def _yaml_node(value: ConfigValue) -> Any:
    match value:
        case str():
            return DoubleQuotedScalarString(value)
        case tuple():
            node = CommentedSeq(map(DoubleQuotedScalarString, value))
            node.fa.set_flow_style()
            return node
        case _:
            return json.dumps(value)


def _parse_values(text: str, path: Path) -> dict[str, ConfigValue]:
    return {name: held.value for name, held in parse_settings(text, path).items()}
