"""Where a setting is written: into the user's file or one of the two of a repository; and whether it counts."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from scaffold.config.edit import set_in_file, unset_in_file
from scaffold.config.folder_trust import IGNORE_FILE, IGNORED, folder_trust, read_folder, trust_folder
from scaffold.config.run.executor_choice import executor_settings
from scaffold.config.schema.parsers import ConfigValue
from scaffold.config.schema.setting import value_entries
from scaffold.config.schema.table import find_setting
from scaffold.config.settings import (
    Settings,
    Values,
    load_settings,
    merge_local_settings,
    merge_project_settings,
    user_config_file,
)
from scaffold.config.settings_file import SettingValue
from scaffold.config.trust_effects import format_setting
from scaffold.core.errors import UsageError
from scaffold.host.contained_path import ContainedPath
from scaffold.policy.trust_decision import LOCAL_SETTINGS_FILE, SETTINGS_FILE

Place = Literal["user", "project", "local"]
REPOSITORY_FILES: Mapping[Place, str] = {"project": SETTINGS_FILE, "local": LOCAL_SETTINGS_FILE}
MERGES = {"project": merge_project_settings, "local": merge_local_settings}


def written_file(place: Place, start: Path) -> ContainedPath:
    """Return the file of settings that `place` means in the folder `start`."""
    if place == "user":
        path = user_config_file()
        path = path.resolve() if path.is_symlink() else path  # into a folder of dotfiles
        return ContainedPath(path.parent, path.name)
    return ContainedPath(read_folder(start).top, REPOSITORY_FILES[place]).followed()


def set_setting(
    name: str, value: ConfigValue, place: Place | None, start: Path, environ: Mapping[str, str]
) -> tuple[Path, Settings]:
    """Write a setting into the file where it belongs, or into that of `place`; return the file, and what applies now.

    Raise UsageError, with nothing written, for a value that fits no other setting, or that the file may not hold.
    """
    executor_settings(load_settings(start, environ, {name: value}))
    own, reason = load_settings(None, environ, {}).values, ""
    for each in _fitting_places(name, place, start):
        reason = _refusal(each, name, value, own)
        if not reason:
            change_file(each, start, lambda file: set_in_file(file, name, value))
            return written_file(each, start).path, load_settings(start, environ, {})
    what = f"`{name}` cannot be {format_setting(value)} in {written_file(each, start)}: {reason}"
    raise UsageError(what, f"`scaffold config {name} VALUE --user` sets it in your own file.")


def unset_setting(name: str, place: Place | None, start: Path) -> tuple[Path, bool]:
    """Remove a setting from the strongest file that has it and where it belongs, or from that of `place`.

    Return the file, and whether it was there.
    """
    for each in reversed(_fitting_places(name, place, start)):
        if change_file(each, start, lambda file: unset_in_file(file, name)):
            return written_file(each, start).path, True
    return written_file(each, start).path, False


def change_file(place: Place, start: Path, change: Callable[[ContainedPath], bool]) -> bool:
    """Return what `change` returns of the file of settings.

    A folder that users trust stays trusted when they change it themselves. Nothing else makes it trusted: that also
    lets code of the repository run.
    """
    file = written_file(place, start)
    if place == "user":
        return change(file)
    before = folder_trust(start)
    if place == "local" and (ignored := ContainedPath(before.folder.top, IGNORE_FILE)).status() is None:
        with suppress(OSError):  # the change itself says what is in the way
            ignored.write(IGNORED)
    done = change(file)
    after, name = read_folder(start), REPOSITORY_FILES[place]
    others = [
        {each: digest for each, digest in folder.digests.items() if each != name} for folder in (before.folder, after)
    ]
    if before.trusted and others[0] == others[1] and after.digests != before.folder.digests:
        trust_folder(after)
    return done


def effect_text(name: str, value: ConfigValue, path: Path, after: Settings) -> str:
    """Return whether a written setting counts, and what hides it if it does not."""
    setting, held = find_setting(name), after.values.get(name)
    adds = setting is not None and setting.accumulates
    if held is not None and (held.value == value or (adds and {*value_entries(value)} <= {*value_entries(held.value)})):
        return f"{name} is set in {path}"
    if after.trust is not None and not after.trust.trusted and path.is_relative_to(after.trust.folder.top):
        return f"{name} is written to {path}, but has no effect: {after.trust.reason}; `scaffold trust` trusts it"
    by = "" if held is None else f": {held.origin} sets it to {format_setting(held.value)}"
    return f"{name} is written to {path}, but has no effect{by}"


def _fitting_places(name: str, place: Place | None, start: Path) -> tuple[Place, ...]:
    """Return the places for a setting, the preferred one first; raise UsageError if it needs a repository."""
    setting = find_setting(name)
    if place is not None or setting is None or not setting.of_repository:
        return (place or "user",)
    top = read_folder(start).top
    if not os.path.lexists(top / ".git"):
        what = f"`{name}` is a setting of a repository, and {top} is in none"
        raise UsageError(what, "Go to the repository, or pass `--user` to set it for all of them.")
    return ("project", "local")


def _refusal(place: Place, name: str, value: ConfigValue, own: Values) -> str:
    """Return why the file of a place may not hold the value; empty if it may."""
    if place == "user":
        return ""
    _, ignored = MERGES[place](own, {name: SettingValue(value, "")})
    return ignored[0].reason if ignored else ""
