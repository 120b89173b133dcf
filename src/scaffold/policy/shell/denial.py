"""Denials that no rule can override: reading secrets, writing protected files, and the user's deny rules.

Every visible simple command is checked, including those run by wrappers and those in `sh -c` texts.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from scaffold.policy.rule.hosts import metadata_host
from scaffold.policy.rule.ruleset import PolicyDecision
from scaffold.policy.rule.tool_rules import PrefixPattern, RegexPattern, Rule, parse_pattern
from scaffold.policy.shell.parsed_command import Redirect, SimpleCommand, Word
from scaffold.policy.shell.reading.readonly_arguments import ReadAccess
from scaffold.policy.shell.workspace_paths import HARMLESS_SINKS, MAX_PATHS_IN_WORD, WorkspacePaths, path_candidates
from scaffold.policy.shell.wrappers import inner_commands, program_name

WRITERS = frozenset({
    *("chgrp", "chmod", "chown", "cp", "dd", "install", "ln", "mkdir", "mv", "patch", "rm", "rmdir", "rsync", "shred"),
    *("tee", "touch", "truncate", "unlink", "sponge", "setfacl", "chattr", "mkfifo", "split", "csplit", "rename"),
})  # fmt: skip
"""Programs that write the files their arguments name."""
WRITERS_IN_PLACE = frozenset({
    *("sed", "perl", "ed", "ex", "vi", "vim", "nano", "emacs", "sort", "awk", "gawk", "curl", "wget"),
})  # fmt: skip
"""Programs that may write; they are assumed to if an argument names a protected file."""
PRINT_BUILTINS = frozenset({"echo", "printf", ":", "true", "false", "test", "["})
"""Builtins whose arguments are not files."""
MAX_DEPTH = 4

ReadsLookup = Callable[[SimpleCommand], ReadAccess | None]
CommandScanner = Callable[[str], tuple[SimpleCommand, ...]]


class DenyCheck(Struct, frozen=True, kw_only=True):
    """Finds the reason why a command must be denied."""

    workspace: WorkspacePaths
    deny: tuple[Rule, ...]
    reads_of: ReadsLookup
    """Returns what a read-only command reads; None for any other command."""
    scan: CommandScanner
    """Returns the commands visible in a shell text."""

    def denial(self, simple: SimpleCommand, folders: frozenset[str], depth: int = 0) -> PolicyDecision | None:
        """Return the denial if the command must not run in one of `folders`, else None."""
        reasons = (
            self._by_rule(simple),
            self._by_redirects(simple.redirects, folders),
            self._by_words(simple, folders),
        )
        if found := next((each for each in reasons if each), None):
            return found
        # `sudo env sh -c '...'` hides the command that matters; a text deeper than this is at least never allowed.
        for inner in inner_commands(simple) if depth < MAX_DEPTH else ():
            for command in (inner,) if isinstance(inner, SimpleCommand) else self.scan(inner):
                if judged := self.denial(command, folders, depth + 1):
                    return judged
        return None

    def _by_rule(self, simple: SimpleCommand) -> PolicyDecision | None:
        words = _plain_words(simple)
        for rule in self.deny if words else ():
            if _rule_matches(rule, words):
                return PolicyDecision("deny", f"deny:{rule}", f"the rule `{rule}` denies it")
        return None

    def _by_redirects(self, redirects: tuple[Redirect, ...], folders: frozenset[str]) -> PolicyDecision | None:
        for redirect in redirects:
            if redirect.writes and (entry := self.workspace.protected(redirect.target, folders)):
                return _protected_denial(redirect.target, entry)
            if not (redirect.duplicates or redirect.is_text) and (
                entry := self.workspace.secret(redirect.target, folders)
            ):
                return _secret_denial(redirect.target, entry)
        return None

    def _by_words(self, simple: SimpleCommand, folders: frozenset[str]) -> PolicyDecision | None:
        name = program_name(simple.words[0]) if simple.words else ""
        access = self.reads_of(simple)
        # `echo .env` prints a name and opens nothing.
        if access is None and name in PRINT_BUILTINS:
            return None
        hosts = [host for word in simple.words[1:] if (host := metadata_host(word.text))] if access is None else []
        if hosts:
            return PolicyDecision("deny", "metadata", f"{hosts[0]} is a cloud metadata service with credentials")
        for word in _read_words(simple, access):
            # `ls .ssh` shows names only, which are no secret.
            if (access is None or not access.names_only) and (entry := self.workspace.secret(word, folders)):
                return _secret_denial(word, entry)
            if access is None and (name in WRITERS or name in WRITERS_IN_PLACE):
                entry = self.workspace.protected(word, folders)
                if entry and word.text not in HARMLESS_SINKS:
                    return _protected_denial(word, entry)
        return None


def _read_words(simple: SimpleCommand, access: ReadAccess | None) -> Iterator[Word]:
    if access is not None:
        for word in access.paths:
            yield from (word,) if word.sure else (part for part in path_candidates(_strip_quotes(word)) if part.text)
        return
    for word in simple.words[1:]:
        bare = word if word.sure else _strip_quotes(word)
        if not any(char.isspace() for char in bare.text.strip()):
            yield from (part for part in path_candidates(bare) if part.text)
        else:
            # A sure word with spaces is one argument, such as a message; the
            # pieces of an unsure one may become arguments.
            yield from (Word(piece) for piece in bare.text.split(maxsplit=MAX_PATHS_IN_WORD) if not word.sure)
    for _, value in simple.assignments:
        yield Word(value, tilde=value.startswith("~/"))


def _strip_quotes(word: Word) -> Word:
    # An unsure word keeps its raw text.
    text = word.text.removeprefix("$") if word.text.startswith("$'") else word.text
    return Word(text.strip("\"'").replace('"', ""), sure=False)


def _rule_matches(rule: Rule, words: tuple[str, ...]) -> bool:
    match parse_pattern(rule.pattern):
        case PrefixPattern(globs=globs):
            # A rule for `/usr/bin/git` also denies `git`; a glob is meant as it is written.
            program = [glob if set(glob) & set("*?[") else program_name(Word(glob)) for glob in globs[:1]]
            return PrefixPattern((*program, *globs[1:])).matches(words)
        case RegexPattern() as pattern:
            return pattern.matches(words)
        case None:
            return False


def _plain_words(simple: SimpleCommand) -> tuple[str, ...]:
    """Return the words with the bare program name; for git, without the options before the subcommand."""
    if not simple.words:
        return ()
    words = [program_name(simple.words[0]), *(word.text for word in simple.words[1:])]
    # Otherwise `git -C . push` would slip past a rule that denies `git push`.
    while words[0] == "git" and len(words) > 1 and words[1].startswith("-"):
        takes_value = words[1] in {
            *("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix")
        }
        del words[1 : 3 if takes_value else 2]
    return tuple(words)


def _secret_denial(word: Word, entry: str) -> PolicyDecision:
    return PolicyDecision("deny", f"secret:{entry}", f"{word.text} contains secrets ({entry}): agents must not read it")


def _protected_denial(word: Word, entry: str) -> PolicyDecision:
    return PolicyDecision("deny", f"protected:{entry}", f"{word.text} is protected ({entry}): agents must not write it")
