"""Whether a shell command may run: denials first, then the user's rules, then what is known to only read.

Pure: the reading of the command, the rules and what the disk shows are handed in.
"""

import re

from msgspec import Struct

from scaffold.policy.gate import STRICTNESS, Judgement
from scaffold.policy.patterns import Expression, Words, escaped, read_pattern
from scaffold.policy.rules import Rule
from scaffold.policy.shell.bash_grammar import read_by_grammar
from scaffold.policy.shell.denial import WRITERS, Lookout
from scaffold.policy.shell.expressions import EXPRESSIONS, Reads, Told
from scaffold.policy.shell.flags import take_apart
from scaffold.policy.shell.git_reading import Runs, any_program, read_git
from scaffold.policy.shell.ground import Ground
from scaffold.policy.shell.places import HARMLESS_SINKS, MOST_NAMES, parts
from scaffold.policy.shell.readers import READERS, VERSIONS
from scaffold.policy.shell.reading import Reader
from scaffold.policy.shell.risks import risk
from scaffold.policy.shell.script import NotUnderstood, Reading, Redirect, Simple, Understood, Word
from scaffold.policy.shell.searching import searched_secret
from scaffold.policy.shell.wrappers import name_of, rule_names_enough

MOST_FOLDERS = 32
"""Folders a command may have entered before it is no longer followed."""
HARMLESS_VARIABLES = frozenset({
    *("CI", "NO_COLOR", "FORCE_COLOR", "LANG", "LC_ALL", "COLUMNS", "LINES", "PYTHONDONTWRITEBYTECODE"),
    *("PYTHONUNBUFFERED", "PYTHONHASHSEED", "TZ", "CLICOLOR"),
})  # fmt: skip
_HARMLESS_VALUE = re.compile(r"[A-Za-z0-9_.-]*")

Prefix = tuple[str, ...]
"""The words of a command that a rule names."""


class Named(Struct, frozen=True):
    """What of a command a rule names."""

    words: Prefix
    sure: int
    """So many of its first words could be no others."""
    whole: bool = False
    """The command is exactly what the rule says."""
    flag: str = ""
    """A flag that stands where the rule takes any word."""


async def judge_command(command: str, ground: Ground, reader: Reader) -> Judgement:
    """Return whether `command` may run; the second parser is asked only where the first would let it run."""
    judged = decide(reader.glance(command), ground)
    return decide(await reader.read(command), ground) if judged.decision == "allow" else judged


def decide(reading: Reading, ground: Ground) -> Judgement:
    """Return whether the command may run from the workspace's root, why, and by which rule."""
    return _Decision(ground).of(reading)


def seen_in(text: str) -> tuple[Simple, ...]:
    """Return the simple commands that can be seen in a text for a shell, understood or not."""
    match read_by_grammar(text):
        case Understood(commands=commands):
            return commands
        case NotUnderstood(seen=seen):
            return seen


class _Decision:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._place = ground.place
        self._lookout = Lookout(place=ground.place, deny=ground.deny, told=self._reads, glimpse=seen_in)

    def of(self, reading: Reading) -> Judgement:
        """Return the strictest of what each command comes to; what is denied anywhere is denied at once."""
        commands = reading.commands if isinstance(reading, Understood) else reading.seen
        judged: list[Judgement] = []
        folders = frozenset({self._place.root})
        for simple in commands:
            if denied := self._lookout.denial(simple, folders):
                return denied
            if isinstance(reading, Understood):
                judged += self._one(simple, folders)
            folders |= self._entered(simple, folders)
            if len(folders) > MOST_FOLDERS:
                return _ask("it changes the folder too often to be followed")
        if isinstance(reading, NotUnderstood):
            return Judgement("ask", "shell", f"the command {reading.reason}, so what it does cannot be told")
        return max(judged, key=lambda each: (STRICTNESS[each.decision], each.rule != "read-only"))

    def _reads(self, simple: Simple) -> Reads | None:
        told = self._told(simple, frozenset({self._place.root}))
        return told if isinstance(told, Reads) else None

    def _entered(self, simple: Simple, folders: frozenset[str]) -> frozenset[str]:
        if [word.text for word in simple.words[:1]] != ["cd"] or len(simple.words) != 2:
            return frozenset()
        word = simple.words[1]
        return frozenset(self._place.reached(word.text, folders, tilde=word.tilde))

    def _one(self, simple: Simple, folders: frozenset[str]) -> list[Judgement]:
        judged = [found for redirect in simple.redirects if (found := self._redirect(redirect, folders))]
        for name, value in simple.assignments:
            if name not in HARMLESS_VARIABLES or not _HARMLESS_VALUE.fullmatch(value):
                judged.append(_ask(f"it sets {name}, which may change what runs"))
        if simple.words:
            judged.append(self._command(simple, folders))
        return judged or [_ask("it sets a variable for what comes after")]

    def _redirect(self, redirect: Redirect, folders: frozenset[str]) -> Judgement | None:
        target = redirect.target
        if redirect.duplicates or target.text in HARMLESS_SINKS:
            return None
        if target.glob:
            return _ask(f"`{target.text}` may be any file")
        if away := self._place.away(target, folders):
            return _ask(f"{away} is outside the workspace")
        if redirect.writes:
            return Judgement("ask", "file_write", f"it writes {target.text}")
        return None

    def _command(self, simple: Simple, folders: frozenset[str]) -> Judgement:
        told = self._told(simple, folders)
        if isinstance(told, Reads):
            told = self._too_far(simple, told, folders)
            if told is None:
                return Judgement("allow", "read-only", f"`{simple.words[0].text}` only reads")
        return self._by_rule(simple, folders) or self._not_read_only(simple, told)

    def _too_far(self, simple: Simple, told: Reads, folders: frozenset[str]) -> str | None:
        """Return why a command that only reads may not do so unasked; None if it may."""
        if away := next((path for word in told.paths if (path := self._away(word, folders))), None):
            return f"{away} is outside the workspace"
        if not self._ground.reading_allowed:
            return "nothing is allowed here but by a rule"
        named = [path for word in told.paths for path in self._place.reached(word.text, folders, tilde=word.tilde)]
        found = searched_secret(simple, tuple(named) or tuple(sorted(folders)), self._place.files)
        return None if found is None else f"it reads folders through, and {found} holds secrets"

    def _not_read_only(self, simple: Simple, told: Runs | str | None) -> Judgement:
        name = simple.words[0].text
        match told:
            case Runs(setting=setting):
                return Judgement("ask", f"git:{setting}", f"the repository's setting {setting} makes git run a program")
            case str():
                return _ask(f"`{name}`: {told}")
            case None:
                return _ask(f"`{name}` is not known to only read, and no rule allows it")

    def _told(self, simple: Simple, folders: frozenset[str]) -> Told | Runs | None:
        """Return what the command reads, or why it may do more; None if nothing is known of it."""
        if not simple.words or not simple.words[0].literal:
            return None
        name, arguments = simple.words[0].text, simple.words[1:]
        if len(arguments) == 1 and name in VERSIONS and arguments[0].text in {"--version", "-V"}:
            return Reads()
        return self._git(arguments, folders) if name == "git" else _reader(name, arguments)

    def _git(self, arguments: tuple[Word, ...], folders: frozenset[str]) -> Told | Runs:
        told = read_git(arguments, self._ground.settings)
        if isinstance(told, Reads) and self._elsewhere(folders):
            return "it runs in another folder, which may be a repository of its own"
        return told

    def _elsewhere(self, folders: frozenset[str]) -> bool:
        homes = {self._place.root, self._place.files.real(self._place.root)}
        return not all(self._finds_ours(folder, homes) for folder in folders)

    def _finds_ours(self, folder: str, homes: set[str]) -> bool:
        """Tell whether git works on the workspace from a folder that is there, and has no repository up to the root."""
        while folder not in homes:
            names = {entry.name.casefold() for entry in self._place.files.entries(folder)}
            if self._place.outside(folder) or not 0 < len(names) < MOST_NAMES or names & {".git", "head"}:
                return False
            folder = folder.rpartition("/")[0]
        return True

    def _away(self, word: Word, folders: frozenset[str]) -> str | None:
        return None if word.text in HARMLESS_SINKS | {"-"} else self._place.away(word, folders)

    def _by_rule(self, simple: Simple, folders: frozenset[str]) -> Judgement | None:
        """Return what the first rule says that is about this command; None if none is."""
        for rule in self._ground.allow:
            named = _named(rule, simple.words)
            if named is None:
                continue
            if not named.whole and (problem := self._beyond(simple.words, named, folders)):
                return _ask(f"the rule `{rule}` does not cover it: {problem}")
            return Judgement("allow", str(rule), f"the rule `{rule}` allows it")
        return None

    def _beyond(self, words: tuple[Word, ...], named: Named, folders: frozenset[str]) -> str | None:
        """Return what makes a command more than the rule that is about it; None if nothing does."""
        program, free = named.words[0], words[named.sure :]
        if not rule_names_enough(named.words):
            return f"`{program}` runs what its arguments say; only a rule that is the whole command allows it"
        if found := named.flag or risk(words, named.words):
            return f"`{found}` makes it do something else; only a rule that names it allows it"
        if program == "git" and (setting := any_program(self._ground.settings)):
            return f"the repository's setting {setting} makes git run a program"
        if name_of(words[0]) in WRITERS and (found := self._too_much(free, folders)):
            return f"`{found}` may be more than one file in the workspace"
        return next((found for word in free if (found := self._beyond_word(word, folders))), None)

    def _too_much(self, words: tuple[Word, ...], folders: frozenset[str]) -> str | None:
        """Return the first of the words that a program which writes may take for many files, or for all."""
        homes = {self._place.root, self._place.files.real(self._place.root)}
        for word in words:
            if word.glob or homes & set(self._place.reached(word.text, folders, tilde=word.tilde)):
                return word.text
        return None

    def _beyond_word(self, word: Word, folders: frozenset[str]) -> str | None:
        if word.glob and word.text[0] in "*?[":
            return f"`{word.text}` may stand for a file whose name is a flag"
        for part in parts(word):
            if _like_a_path(part) and (away := self._away(part, folders)):
                return f"{away} is outside the workspace"
            spaced = any(char.isspace() for char in part.text)
            if not spaced and (entry := self._place.protected(part, folders)):
                return f"{part.text} is protected ({entry})"
        return None


def _reader(name: str, arguments: tuple[Word, ...]) -> Told | None:
    if name == "cd":
        return _cd(arguments)
    if expression := EXPRESSIONS.get(name):
        return expression(arguments)
    if (known := READERS.get(name)) is None:
        return None
    given = take_apart(arguments, known)
    return given if isinstance(given, str) else Reads(given.paths, names_only=known.names_only)


def _named(rule: Rule, words: tuple[Word, ...]) -> Named | None:
    """Return what of a command a rule names; None if the rule is about others."""
    texts = tuple(word.text for word in words)
    match read_pattern(rule.pattern):
        case Words(globs=globs) as pattern if globs and pattern.begin(texts):
            return _by_globs(globs, words) if all(word.literal for word in words[: len(globs)]) else None
        case Expression() as pattern if all(word.literal for word in words) and pattern.fits(texts):
            return Named(texts, sure=1)
        case _:
            return None


def _by_globs(globs: Prefix, words: tuple[Word, ...]) -> Named:
    texts = tuple(word.text for word in words[: len(globs)])
    open_at = [at for at, glob in enumerate(globs) if escaped((texts[at],)) != (glob,)]
    flag = next((texts[at] for at in open_at if texts[at].startswith("-") and not globs[at].startswith("-")), "")
    return Named(
        texts, sure=open_at[0] if open_at else len(globs), whole=not open_at and len(texts) == len(words), flag=flag
    )


def _like_a_path(word: Word) -> bool:
    """Tell whether a word says where it is: from the root, from home, or above."""
    return word.tilde or word.text.startswith("/") or ".." in word.text.split("/")


def _cd(arguments: tuple[Word, ...]) -> Told:
    if len(arguments) != 1 or arguments[0].glob or arguments[0].text.startswith("-"):
        return "leads to a folder that is not told"
    return Reads(arguments, names_only=True)


def _ask(reason: str) -> Judgement:
    return Judgement("ask", "shell", reason)
