"""`config`: print settings with their origins, and set one in the file where it belongs."""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import get_args

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.render.terminal.style import print_json, print_note
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.config.schema import parsers
from scaffold.config.schema.parsers import ConfigValue
from scaffold.config.schema.table import SETTINGS, find_setting
from scaffold.config.settings import BUILT_IN, Settings, load_settings
from scaffold.config.settings_file import parse_setting, read_settings
from scaffold.config.trust_effects import format_setting
from scaffold.config.written_settings import Place, change_file, effect_text, set_setting, unset_setting, written_file
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import join_limited
from scaffold.host.contained_path import ContainedPath
from scaffold.host.startup import importing

MAX_NAMES = 8


@click.command()
@click.argument("key", metavar="[SETTING]", required=False)
@click.argument("value", metavar="[VALUE]", required=False)
@click.option("--user", is_flag=True, help="Your own file, for all repositories.")
@click.option("--project", is_flag=True, help="`.scaffold.yaml` of the repository, for all its users.")
@click.option("--local", is_flag=True, help="`.scaffold/config.local.yaml` of this checkout, ignored by git.")
@click.option("--unset", is_flag=True, help="Remove SETTING from the file: what it was before you set it applies.")
@click.option("--edit", is_flag=True, help="Open the file in $VISUAL or $EDITOR, and check it afterwards.")
@click.option("--list", "purposes", is_flag=True, help="Say what each setting is for.")
@json_option
def config(key: str | None, value: str | None, *, as_json: bool, **given: bool) -> None:
    """Print every setting, or SETTING, with its value and origin; with a VALUE, set it.

    A VALUE is written where the setting belongs: what is about one repository, such as `quality_gates.test` or `setup`,
    into its `.scaffold.yaml`, everything else into your own file. --user, --project or --local name the file; without a
    VALUE, what that file sets is printed. Write a list with commas or as JSON. Comments in the file stay.

    Later layers win: built-in, your file, the project's `.scaffold.yaml` (which can only tighten) and
    `.scaffold/config.local.yaml`, SCAFFOLD_MODEL, flags. The project's files apply only in a folder that you trust: see
    `scaffold trust`. It stays trusted when you set a value there.
    """
    if key is not None:
        parse_setting(key, None)
    places = [each for each in get_args(Place) if given[each]]
    if len(places) > 1:
        raise UsageError("a setting is written into one file", "Pass one of --user, --project and --local.")
    place: Place | None = places[0] if places else None
    unset, edit = given["unset"], given["edit"]
    if unset and (key is None or value is not None):
        fix = "Write it like `scaffold config --unset budget_usd`."
        raise UsageError("--unset takes one setting and no value", fix)
    if (edit and key is not None) or edit + given["purposes"] + unset > 1:
        raise UsageError("these options cannot be combined", "Pass one of --edit, --list and --unset.")
    if edit:
        change_file(place or "user", Path.cwd(), _edit_in_editor)
    elif given["purposes"]:
        _print_purposes(key, as_json=as_json)
    elif place and not unset and value is None:
        file = written_file(place, Path.cwd())
        held = {name: each for name, each in read_settings(file.path).items() if key in {None, name}}
        if not held:
            print_text(f"{file} does not set {key or 'anything'}", err=True)
        _print_settings(Settings(held), key, as_json=as_json)
    else:
        after = _change_setting(key, value, place, unset=unset)
        _print_settings(after or load_settings(Path.cwd(), os.environ, {}), key, as_json=as_json)


def _edit_in_editor(file: ContainedPath) -> bool:
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.touch()
    click.edit(filename=str(file))
    read_settings(file.path)  # raises UsageError that names the line
    print_text(f"{file} is valid", err=True)
    return True


def _change_setting(key: str | None, value: str | None, place: Place | None, *, unset: bool) -> Settings | None:
    """Set or remove a setting, and return what applies then; None if there is nothing to change."""
    if key is None or (value is None and not unset):
        return None
    if value is None:
        path, was_set = unset_setting(key, place, Path.cwd())
        after = load_settings(Path.cwd(), os.environ, {})
        origin = after.values[key].origin if key in after.values else BUILT_IN
        elsewhere = "" if origin == BUILT_IN else f"; {origin} sets it"
        print_text(f"{key} {'is no longer' if was_set else 'was not'} set in {path}{elsewhere}", err=True)
        return after
    parsed = parse_value(key, value)
    path, after = set_setting(key, parsed, place, Path.cwd(), os.environ)
    print_text(effect_text(key, parsed, path, after), err=True)
    known = _known_names(key)
    if known is not None and (unknown := [name for name in after.texts(key) if name not in known]):
        there = f"there is {join_limited(known, MAX_NAMES)}" if known else "there is none yet"
        print_note(f"`{key}` names what is not there: {join_limited(unknown, MAX_NAMES)} ({there})")
    return after


def _known_names(key: str) -> Sequence[str] | None:
    """Return the plugins or MCP servers that a setting may name; None if it names neither."""
    with importing():  # few settings name them
        from scaffold.agent.extensions.access import plugins_folder
        from scaffold.config.trusted_extensions import mcp_files
        from scaffold.extensions.mcp.server_config import read_servers
        from scaffold.extensions.plugins.loaded import plugin_files
    if key in {"plugins.workers", "plugins.network"}:
        return [file.name for file in plugin_files(plugins_folder(), me=os.getuid()).files]
    if key != "mcp.workers":
        return None
    files = mcp_files(Path.cwd(), once=False, tell=print_note)
    read = (read_servers(each.content, file=each.path, scope=each.scope) for each in files)
    return [server.name for each in read for server in each.servers]


def _print_purposes(key: str | None, *, as_json: bool) -> None:
    chosen = {
        name: f"{setting.purpose} (of a repository)" if setting.of_repository else setting.purpose
        for name, setting in SETTINGS.items()
        if key in {None, name}
    }
    if as_json:
        print_json({"settings": chosen})
        return
    wide = max(map(len, chosen)) + 2
    layout = layout_for(sys.stdout)
    lines = (layout.prose(f"{name:<{wide}}", purpose) for name, purpose in chosen.items())
    click.echo("\n".join(line for each in lines for line in each))


def _print_settings(settings: Settings, key: str | None, *, as_json: bool) -> None:
    chosen = {name: value for name, value in settings.values.items() if key in {None, name}}
    if as_json:
        ignored = [
            {"path": each.path, "setting": each.setting or None, "origin": f"ignored: {each.reason}"}
            for each in settings.ignored
        ]
        print_json({"values": chosen, "ignored": ignored})
        return
    wide, layout = max(map(len, settings.values), default=0) + 2, layout_for(sys.stdout)
    lines = list[str]()
    for name, held in chosen.items():
        lines += layout.wrap(f"{name:<{wide}}", f"{format_setting(held.value)}  ({held.origin})")
    click.echo("".join(f"{line}\n" for line in lines), nl=False)
    for note in settings.notes:
        print_note(note)


def parse_value(key: str, text: str) -> ConfigValue:
    """Return the value of the setting `key` that `text` means; raise UsageError if it is invalid."""
    expected, setting = "", find_setting(key)
    # A command may have commas.
    is_one = setting is not None and setting.parse is parsers.notify and not text.lstrip().startswith("[")
    is_list = setting is not None and setting.is_list and not is_one
    meanings: list[object] = [text]
    if is_list:
        meanings = [_parse_list(text)]
    else:
        for number in (float, int):  # the most likely meaning first: a whole number, a number, text
            with suppress(ValueError):
                meanings.insert(0, number(text))
    for meaning in meanings:
        try:
            return parse_setting(key, meaning)
        except ValueError as error:
            expected = str(error)
    given = "" if is_list else f", not {text!r}"  # for a list, `expected` names the invalid entry
    raise UsageError(f"`{key}` must be {expected}{given}", f"See `scaffold config {key}` for what it is now.")


def _parse_list(text: str) -> object:
    if not text.lstrip().startswith("["):
        return [entry for entry in text.split(",") if entry.strip()]
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"this is not a JSON list: {error}", 'Write it like `["a", "b"]`, or `a, b`.') from error
