"""`config`: every setting with its value and where it comes from; and how the user's file is changed."""

import asyncio
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import click

from scaffold.cli.safe import printable
from scaffold.cli.screen import json_option, print_json
from scaffold.cli.setting import Setting
from scaffold.cli.settings import Settings, Value, checked, load_settings, parse_settings, user_file
from scaffold.core.errors import RepositoryUnfit, UsageProblem
from scaffold.git.repository import open_repository
from scaffold.host.files import write_atomic


@click.command()
@click.argument("key", required=False)
@click.argument("value", required=False)
@json_option
def config(key: str | None, value: str | None, *, as_json: bool) -> None:
    """Print every setting, or that of KEY, with its origin; with a VALUE, set KEY in your own configuration file.

    Comments in the file stay. Later wins: built-in, your file, SCAFFOLD_MODEL, flags. A project's own files are
    ignored until folders can be trusted.
    """
    if key is not None:
        checked(key, None)
    if key is not None and value is not None:
        path = user_file(os.environ)
        change(path, key, read_value(key, value))
        click.echo(f"{key} is set in {path}", err=True)
    settings = load_settings(asyncio.run(_root()), os.environ, {})
    if as_json:
        print_json({"values": _chosen(settings, key), "ignored": [_file(each) for each in settings.ignored]})
        return
    click.echo(printable("\n".join(_lines(settings, key))))
    for each in settings.ignored:
        click.echo(f"note: {each.value} is {each.origin}", err=True)


async def _root() -> Path | None:
    try:
        return (await open_repository(Path.cwd(), environ=os.environ)).root
    except RepositoryUnfit:
        return None


def _chosen(settings: Settings, key: str | None) -> dict[str, Value]:
    return {name: value for name, value in settings.values.items() if key in {None, name}}


def _file(ignored: Value) -> dict[str, Setting]:
    return {"path": ignored.value, "origin": ignored.origin}


def _lines(settings: Settings, key: str | None) -> Sequence[str]:
    shown = {name: ("none" if held.value is None else str(held.value)) for name, held in settings.values.items()}
    wide = max(map(len, shown)) + 2
    return [f"{name:<{wide}}{shown[name]}  ({held.origin})" for name, held in _chosen(settings, key).items()]


def read_value(key: str, text: str) -> Setting:
    """Return what `text` from a command line means for the setting `key`; UsageProblem if it will not do."""
    meanings: list[Setting] = [text]
    for number in (float, int):
        try:
            meanings.insert(0, number(text))
        except ValueError:
            continue
    expected = ""
    for meaning in meanings:
        try:
            return checked(key, meaning)
        except ValueError as error:
            expected = str(error)
    raise UsageProblem(f"`{key}` must be {expected}, not {text!r}", f"See `scaffold config {key}` for what it is now.")


def change(path: Path, key: str, setting: Setting) -> None:
    """Set `key` in the configuration file at `path`, in one step that leaves all else, comments too, as it is.

    UsageProblem if the file is faulty, or laid out so that this cannot be done without writing it anew.
    """
    before = path.read_text("utf-8") if path.exists() else ""
    wanted = {name: held.value for name, held in parse_settings(before, path).items()} | {key: setting}
    written = json.dumps(setting, ensure_ascii=False)
    ways = (_replaced(before, path, key, written), _inserted(before, key, written), _appended(before, key, written))
    for after in ways:
        if after is not None and _sets(after, path) == wanted:
            _write(path, after)
            return
    raise UsageProblem(
        f"{path} is laid out in a way that `{key}` cannot be set in without rewriting it",
        f"Set `{key}` to {written} there with an editor.",
    )


def _write(path: Path, text: str) -> None:
    try:
        write_atomic(path, text.encode())
    except OSError as error:
        raise UsageProblem(
            f"{path} cannot be written: {error.strerror}", "Make it writable, then try again."
        ) from error


def _sets(text: str, path: Path) -> dict[str, Setting] | None:
    try:
        return {name: held.value for name, held in parse_settings(text, path).items()}
    except UsageProblem:
        return None


def _replaced(text: str, path: Path, key: str, written: str) -> str | None:
    """Return `text` with another value on the line that sets `key` now."""
    held = parse_settings(text, path).get(key)
    if held is None:
        return None
    lines = text.splitlines(keepends=True)
    number = int(held.origin.rpartition(":")[2]) - 1
    word = re.escape(key.rpartition(".")[2])
    line = re.compile(rf"""(\s*["']?{word}["']?\s*:\s*)(?:"[^"]*"|'[^']*'|[^#\n]*?)(\s*(?:\s#.*)?\n?)""")
    parts = line.fullmatch(lines[number])
    if parts is None:
        return None
    lines[number] = f"{parts[1]}{written}{parts[2]}"
    return "".join(lines)


def _inserted(text: str, key: str, written: str) -> str | None:
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


def _appended(text: str, key: str, written: str) -> str:
    """Return `text` with `key` at its end."""
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{_block(key.split('.'), written, '')}"


def _block(words: Sequence[str], written: str, indent: str) -> str:
    heads = "".join(f"{indent}{'  ' * depth}{word}:\n" for depth, word in enumerate(words[:-1]))
    return f"{heads}{indent}{'  ' * (len(words) - 1)}{words[-1]}: {written}\n"
