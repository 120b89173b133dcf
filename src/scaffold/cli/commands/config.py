"""`config`: every setting with its value and where it comes from; and how the user's file is changed."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.render.style import print_json
from scaffold.config.file import SettingValue, parse_setting, parse_settings, read_text
from scaffold.config.parsers import ConfigValue
from scaffold.config.settings import IgnoredConfig, Settings, load_settings, user_config_file
from scaffold.config.table import SETTINGS
from scaffold.config.trust_effects import format_setting
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import printable
from scaffold.host.files import write_atomic

_FLOW = r"""\[(?:[^\]"'#\n]|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')*\]"""
"""A list on one line."""
_ITEM = re.compile(r"(\s*)-\s")
"""An entry of a list that has a line for each."""


@click.command()
@click.argument("key", required=False)
@click.argument("value", required=False)
@json_option
def config(key: str | None, value: str | None, *, as_json: bool) -> None:
    """Print every setting, or that of KEY, with its origin; with a VALUE, set KEY in your own configuration file.

    A list is written with commas, or as JSON. Comments in the file stay. Later wins: built-in, your file, the
    project's `.scaffold.yaml` (which can only tighten) and `.scaffold/config.local.yaml`, SCAFFOLD_MODEL, flags. The
    project's files count in a folder that you trust: see `scaffold trust`.
    """
    if key is not None:
        parse_setting(key, None)
    if key is not None and value is not None:
        path = user_config_file(os.environ)
        set_in_file(path, key, parse_value(key, value))
        click.echo(f"{key} is set in {path}", err=True)
    settings = load_settings(Path.cwd(), os.environ, {})
    if as_json:
        print_json({"values": _selected(settings, key), "ignored": [_ignored_json(each) for each in settings.ignored]})
        return
    click.echo(printable("\n".join(_lines(settings, key))))
    for note in settings.notes:
        click.echo(printable(f"note: {note}"), err=True)


def _selected(settings: Settings, key: str | None) -> dict[str, SettingValue]:
    return {name: value for name, value in settings.values.items() if key in {None, name}}


def _ignored_json(ignored: IgnoredConfig) -> dict[str, str | None]:
    return {"path": ignored.path, "setting": ignored.setting or None, "origin": f"ignored: {ignored.reason}"}


def _lines(settings: Settings, key: str | None) -> Sequence[str]:
    shown = {name: format_setting(held.value) for name, held in settings.values.items()}
    wide = max(map(len, shown)) + 2
    return [f"{name:<{wide}}{shown[name]}  ({held.origin})" for name, held in _selected(settings, key).items()]


def parse_value(key: str, text: str) -> ConfigValue:
    """Return what `text` from a command line means for the setting `key`; UsageProblem if it will not do."""
    expected = ""
    for meaning in _list_candidates(text) if SETTINGS[key].is_list else _scalar_candidates(text):
        try:
            return parse_setting(key, meaning)
        except ValueError as error:
            expected = str(error)
    given = "" if SETTINGS[key].is_list else f", not {text!r}"  # of a list the entry that will not do is named
    raise UsageError(f"`{key}` must be {expected}{given}", f"See `scaffold config {key}` for what it is now.")


def _scalar_candidates(text: str) -> list[object]:
    """Return what a word may mean, the likeliest first: a whole number, a number, the word."""
    meanings: list[object] = [text]
    for number in (float, int):
        try:
            meanings.insert(0, number(text))
        except ValueError:
            continue
    return meanings


def _list_candidates(text: str) -> list[object]:
    """Return the list that is meant: JSON, or entries between commas."""
    if text.lstrip().startswith("["):
        try:
            return [json.loads(text)]
        except ValueError as error:
            raise UsageError(f"this is no JSON list: {error}", 'Write it like `["a", "b"]`, or `a, b`.') from error
    return [[entry for entry in text.split(",") if entry.strip()]]


def set_in_file(path: Path, key: str, setting: ConfigValue) -> None:
    """Set `key` in the configuration file at `path`, in one step that leaves all else, comments too, as it is.

    UsageProblem if the file is faulty, or laid out so that this cannot be done without writing it anew.
    """
    before = read_text(path)
    wanted = {name: held.value for name, held in parse_settings(before, path).items()} | {key: setting}
    written = json.dumps(setting, ensure_ascii=False)
    ways = (
        _with_value_replaced(before, path, key, written),
        _with_list_edited(before, path, key, setting),
        _with_key_inserted(before, key, written),
        _with_key_appended(before, key, written),
    )
    for after in ways:
        if after is not None and _settings_in(after, path) == wanted:
            _write(path, after)
            return
    raise UsageError(
        f"{path} is laid out in a way that `{key}` cannot be set in without rewriting it",
        f"Set `{key}` to {written} there with an editor.",
    )


def _write(path: Path, text: str) -> None:
    try:
        write_atomic(path, text.encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "Make it writable, then try again.") from error


def _settings_in(text: str, path: Path) -> dict[str, ConfigValue] | None:
    try:
        return {name: held.value for name, held in parse_settings(text, path).items()}
    except UsageError:
        return None


def _with_value_replaced(text: str, path: Path, key: str, written: str) -> str | None:
    """Return `text` with another value on the line that sets `key` now."""
    held = parse_settings(text, path).get(key)
    if held is None:
        return None
    lines = text.splitlines(keepends=True)
    number = int(held.origin.rpartition(":")[2]) - 1
    word = re.escape(key.rpartition(".")[2])
    line = re.compile(rf"""(\s*["']?{word}["']?\s*:\s*)(?:{_FLOW}|"[^"]*"|'[^']*'|[^#\n]*?)(\s*(?:\s#.*)?\n?)""")
    parts = line.fullmatch(lines[number])
    if parts is None:
        return None
    lines[number] = f"{parts[1]}{written}{parts[2]}"
    return "".join(lines)


def _with_list_edited(text: str, path: Path, key: str, setting: ConfigValue) -> str | None:
    """Return `text` with other entries below the line that sets the list `key` now; what stays keeps its comments."""
    held = parse_settings(text, path).get(key)
    if held is None or not (isinstance(held.value, tuple) and isinstance(setting, tuple)):
        return None
    lines = text.splitlines(keepends=True)
    head = int(held.origin.rpartition(":")[2]) - 1
    found = [(n, item) for n in range(head + 1, len(lines)) if (item := _ITEM.match(lines[n]))][: len(held.value)]
    if len(found) != len(held.value) or not found:
        return None
    indent, ending = found[0][1][1], "\r\n" if lines[head].endswith("\r\n") else "\n"
    new = [f"{indent}- {json.dumps(each, ensure_ascii=False)}{ending}" for each in setting if each not in held.value]
    end = found[-1][0] + 1
    lines[end - 1] = lines[end - 1].rstrip("\r\n") + ending
    lines[end:end] = new
    for (place, _), entry in reversed(list(zip(found, held.value, strict=True))):
        if entry not in setting:
            del lines[place]
    if not setting:
        lines[head] = f"{lines[head].partition(':')[0]}: []{ending}"
    return "".join(lines)


def _with_key_inserted(text: str, key: str, written: str) -> str | None:
    """Return `text` with `key` as the first entry of the innermost section that is there already."""
    *sections, word = key.split(".")
    lines = text.splitlines(keepends=True)
    place, indent, found = 0, "", 0
    for section in sections:
        head = next((n for n in range(place, len(lines)) if re.match(rf"{indent}{section}:\s*(#.*)?$", lines[n])), None)
        if head is None:
            break
        place, found = head + 1, found + 1
        below = next((line for line in lines[place:] if line.strip() and not line.lstrip().startswith("#")), "")
        inner = below[: len(below) - len(below.lstrip())]
        indent = inner if len(inner) > len(indent) else f"{indent}  "
    if not found:
        return None
    lines.insert(place, _block([*sections[found:], word], written, indent))
    return "".join(lines)


def _with_key_appended(text: str, key: str, written: str) -> str:
    """Return `text` with `key` at its end."""
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{_block(key.split('.'), written, '')}"


def _block(words: Sequence[str], written: str, indent: str) -> str:
    heads = "".join(f"{indent}{'  ' * depth}{word}:\n" for depth, word in enumerate(words[:-1]))
    return f"{heads}{indent}{'  ' * (len(words) - 1)}{words[-1]}: {written}\n"
