"""Describe the effect of each configuration file of a folder once the folder is trusted."""

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from scaffold.config.schema.parsers import ConfigValue
from scaffold.config.settings import IgnoredConfig, merge_local_settings, merge_project_settings
from scaffold.config.settings_file import SettingValue, decode_config, parse_settings
from scaffold.core.errors import ScaffoldError
from scaffold.git.ignored_files import WILDCARDS, pattern_lines
from scaffold.plan.text.bounded import read_json
from scaffold.policy.secret.unreadable_files import secret_entry
from scaffold.policy.trust_decision import (
    INCLUDE_FILE,
    LOCAL_SETTINGS_FILE,
    SETTINGS_FILE,
    FolderConfig,
    TrustFile,
    description,
)

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


class TrustFileEffect(Struct, frozen=True):
    """One file, and a line for each of its effects; a file with a `problem` cannot take effect."""

    path: str
    what: str
    digest: str
    does: tuple[str, ...] = ()
    problem: str = field(default="", name="trouble")  # the name that `trust --json` prints


def trust_effects(folder: FolderConfig, values: Mapping[str, SettingValue]) -> tuple[TrustFileEffect, ...]:
    """Return the effects of each file of the folder for a user whose own settings are `values`."""
    found, held = [], values
    for piece in folder.pieces:
        effect, held = _file_effect(folder, piece, held)
        found.append(effect)
    return tuple(found)


def format_setting(value: ConfigValue) -> str:
    """Return a setting's value as people read it."""
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return "none" if value is None else str(value)


def _file_effect(
    folder: FolderConfig, piece: TrustFile, values: Mapping[str, SettingValue]
) -> tuple[TrustFileEffect, Mapping[str, SettingValue]]:
    blank = TrustFileEffect(piece.name, description(piece.name), piece.digest, problem=piece.problem)
    if piece.problem:
        return blank, values
    does: tuple[str, ...]
    try:
        if piece.name in {SETTINGS_FILE, LOCAL_SETTINGS_FILE}:
            path = folder.top / piece.name
            asked = parse_settings(decode_config(piece.content, path), path)
            merged, ignored = merge_project_settings(values, asked)
            loose = {each.setting for each in ignored} if piece.name == LOCAL_SETTINGS_FILE else set()
            if piece.name == LOCAL_SETTINGS_FILE:
                merged, ignored = merge_local_settings(values, asked)
            does, values = (tuple(_setting_line(name, value, ignored, loose) for name, value in asked.items()), merged)
        else:
            does = tuple(_content_lines(piece))
    except ScaffoldError as error:
        return TrustFileEffect(blank.path, blank.what, blank.digest, problem=error.in_full), values
    return TrustFileEffect(blank.path, blank.what, blank.digest, does), values


def _setting_line(name: str, asked: SettingValue, ignored: Sequence[IgnoredConfig], loose: Collection[str]) -> str:
    """Return the line for a setting; `loose` are those that the project's own file could not set like this."""
    reason = next((each.reason for each in ignored if each.setting == name), None)
    if reason:
        return f"sets {name} to {format_setting(asked.value)} - ignored: {reason}"
    return f"sets {name} to {format_setting(asked.value)}" + (" - this LOOSENS your settings" if name in loose else "")


def _content_lines(piece: TrustFile) -> Iterator[str]:
    """Yield the programs and entries of a file of another program, or its lines if it is not JSON."""
    text = piece.content.decode("utf-8", "replace")
    table = _parse_json(text) if piece.name.endswith(".json") else None
    if isinstance(table, dict):
        yield from _command_lines(table)
        for name, value in table.items():
            for key, each in _named_entries(value) if isinstance(value, dict) and _all_tables(value) else ():
                yield f"contains {name}.{key} = {json.dumps(each, ensure_ascii=False)}"
            if not (isinstance(value, dict) and _all_tables(value)):
                yield f"contains {name} = {json.dumps(value, ensure_ascii=False)}"
    elif piece.name == INCLUDE_FILE:
        yield from map(_include_line, pattern_lines(piece.content))
    else:
        yield from (f"says: {line}" for line in text.splitlines() if line.strip())


def _include_line(pattern: str) -> str:
    # A secret is copied only if the pattern ends in its file name.
    if pattern.startswith("!"):
        return f"copies nothing that matches {pattern[1:]}"
    copied = f"copies ignored files that match {pattern}"
    end = pattern.rpartition("/")[2]
    named = end and WILDCARDS.isdisjoint(end) and secret_entry(pattern.lstrip("/"))
    return f"{copied} - they may be SECRETS" if named else copied


def _parse_json(text: str) -> Any:
    try:
        return read_json(text.removeprefix("\ufeff"))
    except ValueError:
        return None


def _command_lines(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the programs that servers and hooks start, and the addresses that are called."""
    for name, server in _named_entries(table.get("mcpServers")):
        if "command" in server:
            args = server.get("args")
            line = [server["command"], *(args if isinstance(args, list) else ())]
            yield f"starts `{shlex.join(map(str, line))}` as the server {name}"
        if "url" in server:
            yield f"calls {server['url']} as the server {name}"
        variables = dict.fromkeys(_VARIABLE.findall(json.dumps(server)))
        if variables:
            yield f"gives the server {name} the variables {', '.join(variables)}"
        for member, what in {"hosts": "reach", "reads": "read", "writes": "write"}.items():
            if isinstance(given := server.get(member), list) and given:
                yield f"lets the server {name} {what} {', '.join(map(str, given))}"
    hooks = table.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for command in _values_of_key(groups, "command"):
            yield f"runs `{command}` on {event}"


def _named_entries(table: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, entry in table.items() if isinstance(table, dict) else ():
        if isinstance(entry, dict):
            yield name, entry


def _values_of_key(node: object, key: str) -> Iterator[object]:
    if isinstance(node, list):
        for each in node:
            yield from _values_of_key(each, key)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            else:
                yield from _values_of_key(value, key)


def _all_tables(value: Mapping[str, Any]) -> bool:
    return bool(value) and all(isinstance(each, dict) for each in value.values())
