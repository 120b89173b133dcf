"""Hooks as people write them: the member `hooks` of a settings.json, read without trusting its shape."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from msgspec import Struct

from scaffold.core.extension_set import Hook, HookEvent
from scaffold.core.printable_text import count_of, join_limited, one_line, short_line
from scaffold.extensions.hooks.script_names import named_scripts
from scaffold.plan.text.bounded import read_json

DEFAULT_TIMEOUT_S = 60.0
MAX_TIMEOUT_S = 600.0
MAX_HOOKS = 200  # of one file
EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)
MAX_SHOWN = 60
MAX_NAMES = 10


class HookFile(Struct, frozen=True, kw_only=True):
    """A file with hooks."""

    name: str
    """As people name it."""
    content: bytes
    own: bool
    """Whether it is the user's own."""
    home: str
    top: str = ""
    """The folder of the project."""


class FoundHooks(Struct, frozen=True):
    """The hooks of a file, and a line about each thing in it that has no effect."""

    hooks: tuple[Hook, ...] = ()
    notices: tuple[str, ...] = ()


def read_hooks(file: HookFile) -> FoundHooks:
    """Return the hooks of a settings file."""
    try:
        table = read_json(file.content.decode("utf-8-sig"))
    except ValueError:
        return FoundHooks((), (f"{file.name} has no effect: it is not valid JSON",))
    given = table.get("hooks") if isinstance(table, dict) else None
    if given is None or table.get("disableAllHooks") is True:
        return FoundHooks()
    if not isinstance(given, dict):
        return FoundHooks((), (f"{file.name}: `hooks` has no effect: it must be an object",))
    found = list(_event_hooks(file, given))
    hooks = [each for each in found if isinstance(each, Hook)]
    notices = list(dict.fromkeys(each for each in found if isinstance(each, str)))
    if len(hooks) > MAX_HOOKS:
        notices.append(f"{file.name}: {count_of(len(hooks), 'hook')} are too many: only the first {MAX_HOOKS} run")
    return FoundHooks(tuple(hooks[:MAX_HOOKS]), tuple(notices))


def script_names(content: bytes, *, home: str, top: str) -> tuple[str, ...]:
    """Return the files of the project that the hooks of its settings file run, relative to it."""
    hooks = read_hooks(HookFile(name="", content=content, own=False, home=home, top=top)).hooks
    return tuple(dict.fromkeys(name for hook in hooks for name in hook.scripts if not name.startswith("/")))


def _event_hooks(file: HookFile, table: Mapping[str, Any]) -> Iterator[Hook | str]:
    unknown = [f"`{short_line(one_line(name), MAX_SHOWN)}`" for name in table if name not in EVENTS]
    if unknown:
        yield f"{file.name}: hooks for {join_limited(unknown, MAX_NAMES)} do not run: there is no such event here"
    for name, groups in table.items():
        event = next((each for each in EVENTS if each == name), None)
        if event is None:
            continue
        if not isinstance(groups, list):
            yield f"{file.name}: hooks for {name} do not run: they must be a list"
        else:
            for group in groups:
                yield from _group_hooks(file, event, group)


def _group_hooks(file: HookFile, event: HookEvent, group: object) -> Iterator[Hook | str]:
    entries = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(group, dict) or not isinstance(entries, list):
        yield f"{file.name}: a hook for {event} does not run: it must be an object with the list `hooks`"
        return
    matcher = group.get("matcher", "")
    if not isinstance(matcher, str):
        yield f"{file.name}: a hook for {event} runs for everything: its `matcher` must be text"
        matcher = ""
    for entry in entries:
        yield from _entry_hooks(file, event, matcher, entry)


def _entry_hooks(file: HookFile, event: HookEvent, matcher: str, entry: object) -> Iterator[Hook | str]:
    command = entry.get("command") if isinstance(entry, dict) else None
    kind = entry.get("type", "command") if isinstance(entry, dict) else ""
    if not isinstance(entry, dict) or not isinstance(kind, str):
        yield f"{file.name}: a hook for {event} does not run: it must be an object with `type` and `command`"
    elif kind != "command":
        yield f"{file.name}: a hook for {event} does not run: its type `{short_line(kind, MAX_SHOWN)}` is not supported"
    elif not isinstance(command, str) or not command.strip() or "\0" in command:
        yield f"{file.name}: a hook for {event} does not run: its `command` must be text"
    else:
        timeout_s, problem = _read_timeout(entry.get("timeout"))
        if problem:
            yield f"{file.name}: `{short_line(one_line(command), MAX_SHOWN)}` may take {timeout_s:g} s: {problem}"
        if "if" in entry:
            yield f"{file.name}: `{short_line(one_line(command), MAX_SHOWN)}` runs for each call: `if` is not supported"
        yield Hook(
            event=event,
            matcher=matcher,
            command=command,
            timeout_s=timeout_s,
            source=file.name,
            own=file.own,
            scripts=named_scripts(command, home=file.home, top=file.top),
        )


def _read_timeout(given: object) -> tuple[float, str]:
    # A number that is not usable is replaced, and the user is told why.
    if given is None:
        return DEFAULT_TIMEOUT_S, ""
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
        return DEFAULT_TIMEOUT_S, "its `timeout` must be a number of seconds"
    if given > MAX_TIMEOUT_S:
        return MAX_TIMEOUT_S, "that is the most"
    return float(given), ""
