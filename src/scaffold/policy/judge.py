"""What is to become of a tool call: the one decision, for the gate of a session and for whoever asks beforehand.

In this order: what is denied for good, the pause after denials, the mode, what was allowed for good, rules and what is
known to only read, the category, `--yolo`.
"""

import json
from collections.abc import Callable, Iterator
from typing import Protocol

from msgspec import Struct, structs

from scaffold.policy.gate import STRICTNESS, Judgement, Rules
from scaffold.policy.hosts import denied_url, metadata_host
from scaffold.policy.protected import protected_by
from scaffold.policy.rules import Wish
from scaffold.policy.secrets import secret_by
from scaffold.policy.shell.ground import Ground
from scaffold.policy.shell.places import LONGEST_PATH, NoFiles, Place

READING_MODES = frozenset({"plan", "explore", "review"})
"""Modes in which nothing is changed."""
MODELESS = frozenset({"file_read", "memory", "subagent"})
"""Categories that no mode tightens: a subagent has a gate and a mode of its own."""
MOST_FOLLOWED = 200
"""Texts of one call in which links are followed; further ones are taken as they are written."""

_NOT_FILES = ("/dev/", "/proc/", "/sys/")


class ShellJudge(Protocol):
    """Understands shell commands."""

    async def judge(self, command: str, ground: Ground) -> Judgement:
        """Return what a command comes to by itself: `deny` for good, `allow` by a rule or as one that only reads.

        The latter, where all of it only reads, by the rule `read-only`.
        """
        ...

    async def proposal(self, command: str, ground: Ground) -> str | None:
        """Return a pattern that would allow this command and others like it; None if only its whole text could."""
        ...


class LateShell:
    """A judge of shell commands that is loaded for the first one. Implements `ShellJudge`."""

    def __init__(self, load: Callable[[], ShellJudge]) -> None:
        self._load = load
        self._loaded: ShellJudge | None = None

    async def judge(self, command: str, ground: Ground) -> Judgement:
        """Return what a command comes to by itself."""
        return await self._shell().judge(command, ground)

    async def proposal(self, command: str, ground: Ground) -> str | None:
        """Return a pattern that would allow this command and others like it."""
        return await self._shell().proposal(command, ground)

    def _shell(self) -> ShellJudge:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded


class Scene(Struct, frozen=True, kw_only=True):
    """Where and when a call is wished for."""

    place: Place
    mode: str = "default"
    pause_s: float = 0.0
    """What is left of the pause after denials."""


async def judge(wish: Wish, rules: Rules, scene: Scene, shell: ShellJudge) -> Judgement:
    """Return what is to become of a tool call, by which rule, and why; nothing is asked and nothing remembered."""
    found = await _by_itself(wish, rules, scene.place, shell)
    if found is not None and found.decision == "deny":
        return found
    if scene.pause_s > 0:
        words = f"{wish.category} was denied too often; ask again in {scene.pause_s:.1f} s"
        return Judgement("deny", "pause", words)
    if scene.mode in READING_MODES and not _changes_nothing(wish, found):
        return _by_mode(wish, scene.mode, found)
    if wish.same in rules.always:
        return Judgement("allow", "always", "it was allowed once and for all")
    if found is not None and found.decision == "allow":
        return found
    return _by_category(wish, rules, found)


def ground_of(rules: Rules, place: Place, tool: str) -> Ground:
    """Return what a decision about a command of this tool rests on."""
    return Ground(
        place=place,
        allow=tuple(rule for rule in rules.allow if rule.is_for(tool)),
        deny=tuple(rule for rule in rules.deny if rule.is_for(tool)),
        reading_allowed=rules.of("shell") != "deny",
    )


async def _by_itself(wish: Wish, rules: Rules, place: Place, shell: ShellJudge) -> Judgement | None:
    """Return what rules and files say of a call, whatever its category; None if they say nothing."""
    if wish.kind == "command":
        return await shell.judge(wish.subject, ground_of(rules, place, wish.tool))
    if denied := _denial(wish, place):
        return denied
    if rule := next((rule for rule in rules.deny if rule.denies(wish)), None):
        return Judgement("deny", f"deny:{rule}", f"the rule `{rule}` denies it")
    if rule := next((rule for rule in rules.allow if rule.allows(wish)), None):
        return Judgement("allow", str(rule), f"the rule `{rule}` allows it")
    return _question(wish) if wish.kind == "path" else None


def _denial(wish: Wish, place: Place) -> Judgement | None:
    """Return why nobody may make this call, which is no command; None if nothing speaks against it."""
    if wish.kind == "url":
        return denied_url(wish.subject)
    if wish.kind == "path":
        return _by_path(wish.subject, wish.paths, place, writes=wish.category == "file_write")
    if wish.category in {"mcp", "plugin"}:
        return _by_texts(wish, place)
    return None


def _by_path(path: str, reached: tuple[str, ...], place: Place, *, writes: bool) -> Judgement | None:
    """Return why a file may not be touched by anybody; None if nothing speaks against it."""
    strange = any("\ud800" <= char <= "\udc7f" or "\udd00" <= char <= "\udfff" for char in path)
    if strange or not path or len(path) > LONGEST_PATH or "\0" in path:
        return Judgement("deny", "path", "the path is empty, too long, has a NUL in it or is not valid text")
    for each in reached:
        if writes and (entry := protected_by(each)):
            return Judgement("deny", f"protected:{entry}", f"{each} is protected ({entry}): no agent writes it")
        whole = f"{place.root.rstrip('/')}/{each}" if not each.startswith("/") else each
        if entry := secret_by(whole):
            return Judgement("deny", f"secret:{entry}", f"{each} holds secrets ({entry}): no agent touches it")
        if f"{whole}/".startswith(_NOT_FILES):
            return Judgement("deny", "device", f"{each} is no ordinary file")
    return None


def _by_texts(wish: Wish, place: Place) -> Judgement | None:
    """Return why a call must not be made of which nothing is known but that its texts may name anything."""
    unfollowed = structs.replace(place, files=NoFiles())
    for at, text in enumerate(_texts(wish)):
        if denied := _by_text(text, place if at < MOST_FOLLOWED else unfollowed):
            return denied
    return None


def _by_text(text: str, place: Place) -> Judgement | None:
    """Return why a text that may be a URL or the path of a file must not be handed to somebody else's tool."""
    words = text.split(maxsplit=1)
    if "://" in text and len(words) == 1 and (host := metadata_host(words[0])):
        return Judgement("deny", "metadata", f"{host} hands out keys of this machine")
    path = text.removeprefix("file://")
    if not path or "\0" in path or len(path) > LONGEST_PATH:
        return None
    tilde = path == "~" or path.startswith("~/")
    reached = tuple(map(place.within, place.reached(path, frozenset({place.root}), tilde=tilde)))
    denied = _by_path(path, reached, place, writes=True)
    return denied if denied is not None and denied.rule.startswith(("protected:", "secret:")) else None


def _question(wish: Wish) -> Judgement | None:
    """Return what about a path deserves a question even where its category is free."""
    if outside := next((path for path in wish.paths if path.startswith("/")), None):
        return Judgement("ask", "outside", f"{outside} is outside the workspace")
    if any(ord(char) < 32 or ord(char) == 127 for char in wish.subject):
        return Judgement("ask", "path", f"the path has a control character in it ({ascii(wish.subject)[1:-1]})")
    return None


def _changes_nothing(wish: Wish, found: Judgement | None) -> bool:
    if wish.kind == "command":
        return found is not None and found.rule == "read-only"
    return wish.only_reads or wish.category in MODELESS


def _by_mode(wish: Wish, mode: str, found: Judgement | None) -> Judgement:
    about = f"{found.reason}; in" if wish.kind == "command" and found is not None else "in"
    way_out = "leave the mode with switch_mode first, if that is what the user wants"
    return Judgement("deny", f"mode:{mode}", f"{about} the mode {mode} nothing is changed; {way_out}")


def _by_category(wish: Wish, rules: Rules, found: Judgement | None) -> Judgement:
    """Return what the category comes to; what `found` asks is lifted by a category that somebody set."""
    decision = rules.of(wish.category, confined=wish.confined)
    asks = found is not None and not (decision == "allow" and wish.category in rules.categories)
    if asks and STRICTNESS[decision] < STRICTNESS["ask"]:
        decision = "ask"
    if decision == "ask" and rules.yolo:
        return Judgement("allow", "--yolo", "nothing is asked")
    if decision == "ask" and found is not None:
        return Judgement("ask", found.rule, found.reason)
    return Judgement(decision, "category", _words(wish, rules, decision))


def _words(wish: Wish, rules: Rules, decision: str) -> str:
    match decision:
        case "allow":
            return f"{wish.category} is allowed"
        case "deny":
            return f"{wish.category} is switched off here"
        case _:
            areas = (rules.areas.of(path) for path in wish.paths) if wish.category == "file_write" else ()
            area = next((area for area in areas if area), None)
            note = f"; it lies in a protected area ({area})" if area else ""
            return f"{wish.tool} needs a human's consent ({wish.category}){note}"


def _texts(wish: Wish) -> Iterator[str]:
    """Yield every text in the arguments, however deep, names included."""
    waiting: list[object] = [json.loads(wish.args or "{}")]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as table:
                waiting += (*table, *table.values())
            case list() as items:
                waiting += items
