"""`config`: print settings with their origins, and set one in the user's file."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.render.terminal.style import print_json, print_note
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.config.edit import set_in_file, unset_in_file
from scaffold.config.schema.parsers import ConfigValue
from scaffold.config.schema.table import SETTINGS, find_setting
from scaffold.config.settings import Settings, load_settings, user_config_file
from scaffold.config.settings_file import parse_setting, read_settings
from scaffold.config.trust_effects import format_setting
from scaffold.core.errors import UsageError


@click.command()
@click.argument("key", metavar="[SETTING]", required=False)
@click.argument("value", metavar="[VALUE]", required=False)
@click.option("--unset", is_flag=True, help="Remove SETTING from your file: what it was before you set it applies.")
@click.option("--edit", is_flag=True, help="Open your file in $VISUAL or $EDITOR, and check it afterwards.")
@click.option("--list", "purposes", is_flag=True, help="Say what each setting is for.")
@json_option
def config(key: str | None, value: str | None, *, unset: bool, edit: bool, purposes: bool, as_json: bool) -> None:
    """Print every setting, or SETTING, with its value and origin; with a VALUE, set it in your own configuration file.

    Write a list with commas or as JSON. Comments in the file stay. Later layers win: built-in, your file, the project's
    `.scaffold.yaml` (which can only tighten) and `.scaffold/config.local.yaml`, SCAFFOLD_MODEL, flags. The project's
    files apply only in a folder that you trust: see `scaffold trust`.
    """
    if key is not None:
        parse_setting(key, None)
    if unset and (key is None or value is not None):
        fix = "Write it like `scaffold config --unset budget_usd`."
        raise UsageError("--unset takes one setting and no value", fix)
    if (edit and key is not None) or edit + purposes + unset > 1:
        raise UsageError("these options cannot be combined", "Pass one of --edit, --list and --unset.")
    path = user_config_file()
    if edit:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        click.edit(filename=str(path))
        read_settings(path)  # raises UsageError that names the line
        print_text(f"{path} is valid", err=True)
        return
    if purposes:
        _print_purposes(key, as_json=as_json)
        return
    if key is not None and unset:
        was_set = unset_in_file(path, key)
        print_text(f"{key} is no longer set in {path}" if was_set else f"{key} was not set in {path}", err=True)
    if key is not None and value is not None:
        parsed = parse_value(key, value)
        if key.partition(".")[0] in {"tier", "tiers"}:
            load_settings(Path.cwd(), os.environ, {key: parsed})  # raises UsageError for a tier that cannot be used
        set_in_file(path, key, parsed)
        print_text(f"{key} is set in {path}", err=True)
    _print_settings(load_settings(Path.cwd(), os.environ, {}), key, as_json=as_json)


def _print_purposes(key: str | None, *, as_json: bool) -> None:
    chosen = {name: setting.purpose for name, setting in SETTINGS.items() if key in {None, name}}
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
    wide, layout = max(map(len, settings.values)) + 2, layout_for(sys.stdout)
    lines = list[str]()
    for name, held in chosen.items():
        lines += layout.wrap(f"{name:<{wide}}", f"{format_setting(held.value)}  ({held.origin})")
    click.echo("\n".join(lines))
    for note in settings.notes:
        print_note(note)


def parse_value(key: str, text: str) -> ConfigValue:
    """Return the value of the setting `key` that `text` means; raise UsageError if it is invalid."""
    expected, setting = "", find_setting(key)
    is_list = setting is not None and setting.is_list
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
