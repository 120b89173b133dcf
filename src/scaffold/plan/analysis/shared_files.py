"""Files that several actions of a plan may change: these actions cannot run at the same time."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.core.plan import ActionSpec

WILDCARDS = frozenset("*?[")


class SharedPath(Struct, frozen=True):
    """The path on which the most work has to be done one after the other."""

    path: str
    actions: tuple[ActionKey, ...]
    """Those that name it, or a folder around it, in plan order."""
    seconds: float
    """Of all of them together."""


def busiest_path(actions: Iterable[ActionSpec], seconds: Mapping[ActionKey, float]) -> SharedPath | None:
    """Return the path that several actions name with the most work; None if no two actions share one.

    Actions missing from `seconds` take no time and are left out. A glob counts as the folder before its first wildcard;
    without one it says nothing about its files, and neither does an action without files.
    """
    users: dict[str, dict[ActionKey, None]] = {}
    for action in actions:
        if action.key in seconds:
            for path in filter(None, map(_literal, action.files)):
                users.setdefault(path, {})[action.key] = None
    # All that name a path or a folder around it overlap with each other.
    found = (_shared(path, users, seconds) for path in users)
    return max((each for each in found if len(each.actions) > 1), key=lambda each: each.seconds, default=None)


def _shared(path: str, users: Mapping[str, Iterable[ActionKey]], seconds: Mapping[ActionKey, float]) -> SharedPath:
    parts = path.split("/")
    around = ("/".join(parts[: depth + 1]) for depth in range(len(parts)))
    keys = dict.fromkeys(key for folder in around for key in users.get(folder, ()))
    return SharedPath(path, tuple(keys), sum(seconds[key] for key in keys))


def _literal(path: str) -> str:
    """Return the path without its wildcards, `./` and a slash at its end; empty if nothing is left."""
    parts: list[str] = []
    for part in path.split("/"):
        if WILDCARDS & set(part):
            break
        if part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)
