"""What no rule lifts: secrets that would be read, protected files that would be written, and the user's own denials.

It is looked for in every simple command that can be seen, in those of wrappers and in texts that shells are handed.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from scaffold.policy.gate import Judgement
from scaffold.policy.hosts import metadata_host
from scaffold.policy.patterns import Expression, Words, read_pattern
from scaffold.policy.rules import Rule
from scaffold.policy.shell.expressions import Reads
from scaffold.policy.shell.places import HARMLESS_SINKS, MOST_PARTS, Place, parts
from scaffold.policy.shell.script import Redirect, Simple, Word
from scaffold.policy.shell.wrappers import inner_commands, name_of

WRITERS = frozenset({
    *("chgrp", "chmod", "chown", "cp", "dd", "install", "ln", "mkdir", "mv", "patch", "rm", "rmdir", "rsync", "shred"),
    *("tee", "touch", "truncate", "unlink", "sponge", "setfacl", "chattr", "mkfifo", "split", "csplit", "rename"),
})  # fmt: skip
"""Programs that write what their arguments name."""
WRITERS_IN_PLACE = frozenset({
    *("sed", "perl", "ed", "ex", "vi", "vim", "nano", "emacs", "sort", "awk", "gawk", "curl", "wget"),
})  # fmt: skip
"""Programs that may, and are taken to when a protected file is named."""
TALKS = frozenset({"echo", "printf", ":", "true", "false", "test", "["})
"""Builtins whose words are no files."""
DEEPEST = 4

Told = Callable[[Simple], Reads | None]
Glimpse = Callable[[str], tuple[Simple, ...]]


class Lookout(Struct, frozen=True, kw_only=True):
    """Finds what must be denied."""

    place: Place
    deny: tuple[Rule, ...]
    told: Told
    """Says what a command reads if it does nothing else."""
    glimpse: Glimpse
    """Says which commands can be seen in a text for a shell."""

    def denial(self, simple: Simple, folders: frozenset[str], depth: int = 0) -> Judgement | None:
        """Return why the command must not run from any of `folders`; None if nothing speaks against it."""
        reasons = (
            self._by_rule(simple),
            self._by_redirects(simple.redirects, folders),
            self._by_words(simple, folders),
        )
        if found := next((each for each in reasons if each), None):
            return found
        for inner in inner_commands(simple) if depth < DEEPEST else ():
            for command in (inner,) if isinstance(inner, Simple) else self.glimpse(inner):
                if judged := self.denial(command, folders, depth + 1):
                    return judged
        return None

    def _by_rule(self, simple: Simple) -> Judgement | None:
        words = _plain(simple)
        for rule in self.deny if words else ():
            if _is_about(rule, words):
                return Judgement("deny", f"deny:{rule}", f"the rule `{rule}` denies it")
        return None

    def _by_redirects(self, redirects: tuple[Redirect, ...], folders: frozenset[str]) -> Judgement | None:
        for redirect in redirects:
            if redirect.writes and (entry := self.place.protected(redirect.target, folders)):
                return _protected(redirect.target, entry)
            if not redirect.duplicates and (entry := self.place.secret(redirect.target, folders)):
                return _secret(redirect.target, entry)
        return None

    def _by_words(self, simple: Simple, folders: frozenset[str]) -> Judgement | None:
        name = name_of(simple.words[0]) if simple.words else ""
        told = self.told(simple)
        if told is None and name in TALKS:
            return None
        hosts = [host for word in simple.words[1:] if (host := metadata_host(word.text))] if told is None else []
        if hosts:
            return Judgement("deny", "metadata", f"{hosts[0]} hands out keys of this machine")
        for word in _looked_at(simple, told):
            if (told is None or not told.names_only) and (entry := self.place.secret(word, folders)):
                return _secret(word, entry)
            if told is None and (name in WRITERS or name in WRITERS_IN_PLACE):
                entry = self.place.protected(word, folders)
                if entry and word.text not in HARMLESS_SINKS:
                    return _protected(word, entry)
        return None


def _looked_at(simple: Simple, told: Reads | None) -> Iterator[Word]:
    if told is not None:
        for word in told.paths:
            yield from (word,) if word.sure else (part for part in parts(_bared(word)) if part.text)
        return
    for word in simple.words[1:]:
        seen = word if word.sure else _bared(word)
        if not any(char.isspace() for char in seen.text.strip()):
            yield from (part for part in parts(seen) if part.text)
        else:
            yield from (Word(piece) for piece in seen.text.split(maxsplit=MOST_PARTS) if not word.sure)
    for _, value in simple.assignments:
        yield Word(value, tilde=value.startswith("~/"))


def _bared(word: Word) -> Word:
    """Return the raw text of a word without its quotes, as far as they can be told."""
    text = word.text.removeprefix("$") if word.text.startswith("$'") else word.text
    return Word(text.strip("\"'").replace('"', ""), sure=False)


def _is_about(rule: Rule, words: tuple[str, ...]) -> bool:
    match read_pattern(rule.pattern):
        case Words(globs=globs):
            return Words((*map(_bare, globs[:1]), *globs[1:])).begin(words)
        case Expression() as pattern:
            return pattern.fits(words)
        case None:
            return False


def _bare(glob: str) -> str:
    """Return the program a rule names without its directory; a glob over directories stays one."""
    return glob if set(glob) & set("*?[") else name_of(Word(glob))


def _plain(simple: Simple) -> tuple[str, ...]:
    """Return a command's words with its program's bare name, and git's without what stands before the subcommand."""
    if not simple.words:
        return ()
    words = [name_of(simple.words[0]), *(word.text for word in simple.words[1:])]
    while words[0] == "git" and len(words) > 1 and words[1].startswith("-"):
        takes_value = words[1] in {
            "-C",
            "-c",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--config-env",
            "--super-prefix",
        }
        del words[1 : 3 if takes_value else 2]
    return tuple(words)


def _secret(word: Word, entry: str) -> Judgement:
    return Judgement("deny", f"secret:{entry}", f"{word.text} holds secrets ({entry}): no agent reads it")


def _protected(word: Word, entry: str) -> Judgement:
    return Judgement("deny", f"protected:{entry}", f"{word.text} is protected ({entry}): no agent writes it")
