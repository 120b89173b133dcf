"""System prompts: what workers of each role are told, what ralph itself is told, and in which mode."""

import re
import stat
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from msgspec import Struct

from scaffold.agent.instructions import Instructions
from scaffold.verify.review import gives_verdict

ROLES = resources.files("scaffold.agent") / "roles"

BUILT_IN = frozenset({"implementation", "testing", "code_review", "architecture_review", "design_review", "pm_review"})
"""Roles of workers with a prompt of their own; every other worker gets the generic one."""
LEADERS = frozenset({"planner", "supervisor", "drafter", "critic"})
"""Roles that lay work out, say what it has to show, or how good it is; the rules of who does it are not for them."""
LARGEST_BYTES = 64 * 1024
LONGEST_NAME = 100
"""Bytes of a role that may name a file, and characters of one that is named to an agent."""

_FILE_NAME = re.compile(r"\w[\w.-]*")

Notice = Callable[[str], None]


def unnoticed(text: str, /) -> None:
    """Tell nobody."""


class _Unfit(Struct, frozen=True):
    """A prompt is there that cannot be used."""

    why: str


def system_prompt(role: str, *, folders: Sequence[str] = (), notice: Notice = unnoticed) -> str:
    """Return the system prompt of a worker or leader with this role; who is in no folder has a built-in one.

    `folders` may hold a `ROLE.md`, the first that does counts: it takes the place of the role's own words alone, never
    of the rules all workers have, nor of how a verdict is given. `notice` is told of files that cannot be used.
    """
    if role in LEADERS:
        return _own_words(role, folders, notice) or _text(role)
    return worker_prompt(role, folders=folders, notice=notice)


def worker_prompt(role: str, *, folders: Sequence[str] = (), notice: Notice = unnoticed) -> str:
    """Return the system prompt of a worker; a role nobody knows is named in a generic one. As `system_prompt`."""
    own = _own_words(role, folders, notice) or _text(role if role in BUILT_IN else "generic")
    parts = [_text("ground"), own.replace("{role}", _named(role))]
    if gives_verdict(role):
        parts.append(_text("verdict"))
    return "\n\n".join(parts)


def session_prompt(instructions: Instructions | None = None, *, own: str | None = None) -> str:
    """Return ralph's own base prompt, with what the project tells agents; `own` are the user's words in its place."""
    base = _text("session") if own is None else own.strip()
    if instructions is None or not instructions.text:
        return base
    return f"{base}\n\n# What this project tells agents ({instructions.path.name})\n\n{instructions.text}"


def foreman_prompt() -> str:
    """Return what the agent is told that refines plans with the user."""
    return _text("foreman")


def mode_prompt(mode: str) -> str:
    """Return what an agent is told that is in this mode; there must be words for it."""
    return _text(f"mode_{mode}")


def _text(name: str) -> str:
    return ROLES.joinpath(f"{name}.md").read_text(encoding="utf-8").strip()


def _own_words(role: str, folders: Sequence[str], notice: Notice) -> str | None:
    """Return what the first folder says that has a usable prompt for the role; None if none has."""
    if _FILE_NAME.fullmatch(role) is None or len(role.encode()) > LONGEST_NAME:
        return None
    for folder in folders:
        place = Path(folder) / f"{role}.md"
        words = _read(place)
        if isinstance(words, str):
            return words
        if words is not None:
            notice(f"The prompt {place} is not used: it {words.why}.")
    return None


def _read(place: Path) -> str | _Unfit | None:
    """Return the words of a prompt, None if there is no such file.

    No link is followed out of the folder: what others may have linked there is not for a model to see.
    """
    try:
        status = place.stat()
        if not place.resolve().is_relative_to(place.parent.resolve()):
            return _Unfit("is a link that leads out of its folder")
        if not stat.S_ISREG(status.st_mode):
            return _Unfit("is no ordinary file")
        with place.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return _Unfit(f"cannot be read ({error.strerror})")
    return _decoded(content)


def _decoded(content: bytes) -> str | _Unfit:
    if len(content) > LARGEST_BYTES:
        return _Unfit(f"has more than {LARGEST_BYTES:,} bytes")
    try:
        words = content.decode("utf-8-sig").replace("\r\n", "\n").strip()
    except UnicodeDecodeError:
        return _Unfit("is not UTF-8")
    if not words:
        return _Unfit("is empty")
    return words


def _named(role: str) -> str:
    """Return a role as it may stand in a prompt: on one line, and not without end."""
    shown = "".join(each if each.isprintable() else " " for each in role)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[:LONGEST_NAME]}..."
