"""Decide whether a shell command may run: denials first, then read-only commands, then the user's rules.

Pure: the parsed command, the rules and the view of the disk are passed in.
"""

import os
import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import utf8_safe
from scaffold.git.repository_config import EMBEDDED
from scaffold.policy.rule.ruleset import STRICTNESS, PolicyDecision
from scaffold.policy.rule.tool_rules import PrefixPattern, RegexPattern, Rule, escape_words, parse_pattern
from scaffold.policy.shell.denial import WRITERS, DenyCheck
from scaffold.policy.shell.parse.command_parser import CommandParser
from scaffold.policy.shell.parse.tree_sitter_parser import parse_with_tree_sitter
from scaffold.policy.shell.parsed_command import (
    ParsedCommand,
    ParseResult,
    Redirect,
    SimpleCommand,
    UnparsedCommand,
    Word,
)
from scaffold.policy.shell.reading.nested_commands import limited_command
from scaffold.policy.shell.reading.read_analysis import ReadAnalyzer, pipeline_before
from scaffold.policy.shell.reading.readonly_arguments import ReadAccess
from scaffold.policy.shell.reading.readonly_git import ConfiguredProgram, any_program_setting
from scaffold.policy.shell.risky_flags import find_risk, pushed_branch
from scaffold.policy.shell.workspace_paths import HARMLESS_SINKS, DecisionContext, WorkspacePaths, path_candidates
from scaffold.policy.shell.wrappers import program_name, rule_names_enough

MAX_FOLDERS = 32
"""A command with more possible working directories is not analysed."""
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.-]*")
_NO_PAGER = re.compile(r"(?:cat)?")
HARMLESS_VARIABLES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("CI", "NO_COLOR", "FORCE_COLOR", "LANG", "LC_ALL", "COLUMNS", "LINES"), _PLAIN_VALUE),
    **dict.fromkeys(("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "TZ", "CLICOLOR"), _PLAIN_VALUE),
    **dict.fromkeys(("PAGER", "GIT_PAGER"), _NO_PAGER),
}
"""Variables with values that cannot make a program run another one."""

_FOLDERS = re.compile(r"[\w./-]+(?::[\w./-]+)*", re.ASCII)
_LOG = re.compile(r"(?:[\w.-]+/)*(?:[\w.-]+\.(?:log|out)|log|output)", re.ASCII)
CommandPrefix = tuple[str, ...]
"""The words of a command that a rule matches."""


class RuleMatch(Struct, frozen=True):
    """The part of a command that a rule matches."""

    words: CommandPrefix
    sure: int
    """The number of first words that the rule fixes literally."""
    whole: bool = False
    """Whether the rule matches the whole command literally."""
    flag: str = ""
    """A flag that a wildcard of the rule matched; empty without one."""


async def decide_command(command: str, context: DecisionContext, parser: CommandParser) -> PolicyDecision:
    """Return whether `command` may run; the second parser runs only if the first one's result would allow it."""
    judged = decide_parsed(parser.parse_first(command), context)
    return decide_parsed(await parser.read(command), context) if judged.decision == "allow" else judged


def decide_parsed(parsed: ParseResult, context: DecisionContext) -> PolicyDecision:
    """Return whether the parsed command may run from the workspace's root, with the rule and the reason."""
    return _CommandDecision(context).decide(parsed)


def visible_commands(text: str) -> tuple[SimpleCommand, ...]:
    """Return the simple commands found in a shell text, even if it cannot be parsed completely."""
    match parse_with_tree_sitter(utf8_safe(text)):
        case ParsedCommand(commands=commands):
            return commands
        case UnparsedCommand(seen=seen):
            return seen


_Decided = tuple[SimpleCommand, list[PolicyDecision]]


class _CommandDecision:
    def __init__(self, context: DecisionContext) -> None:
        self._context = context
        self._workspace = context.workspace
        self._analysis = ReadAnalyzer(context.workspace, context.settings)
        self._deny_check = DenyCheck(
            workspace=context.workspace, deny=context.deny, reads_of=self._read_access, scan=visible_commands
        )

    def decide(self, parsed: ParseResult) -> PolicyDecision:
        """Return the strictest decision over all simple commands; the first denial ends the search."""
        commands = parsed.commands if isinstance(parsed, ParsedCommand) else parsed.seen
        judged: list[PolicyDecision] = []
        before: list[tuple[SimpleCommand, list[PolicyDecision]]] = []
        folders = frozenset({self._workspace.root})
        for simple in commands:
            # Denials apply even to a command that could not be parsed: what is visible of it is enough.
            if denied := self._deny_check.denial(simple, folders):
                return denied
            if isinstance(parsed, ParsedCommand):
                parts = self._decide_one(simple, folders, before)
                before.append((simple, parts))
                judged += parts
            # The folder before a `cd` stays possible: it may fail, or run in a subshell of a pipeline.
            if [word.text for word in simple.words[:1]] == ["cd"] and len(simple.words) == 2:
                place = simple.words[1]
                folders |= frozenset(self._workspace.reached(place.text, folders, tilde=place.tilde))
            if len(folders) > MAX_FOLDERS:
                return _ask_because("it changes the working directory too often to be analysed")
        if isinstance(parsed, UnparsedCommand):
            return PolicyDecision("ask", "shell", f"the command {parsed.reason}, so its effects are unknown")
        # Among permissions one by a rule wins, because `read-only` must hold for every part.
        return max(judged, key=lambda each: (STRICTNESS[each.decision], each.rule != "read-only"))

    def _read_access(self, simple: SimpleCommand) -> ReadAccess | None:
        access = self._analysis.analyze(simple.words, frozenset({self._workspace.root}))
        return access if isinstance(access, ReadAccess) else None

    def _decide_one(
        self, simple: SimpleCommand, folders: frozenset[str], before: Sequence[_Decided]
    ) -> list[PolicyDecision]:
        judged = [found for redirect in simple.redirects if (found := self._decide_redirect(redirect, folders))]
        for name, value in simple.assignments:
            # Variables such as LD_PRELOAD, PATH or GIT_SSH make an allowed program run another one.
            if not is_harmless_assignment(name, value, simple.words, self._workspace):
                judged.append(_ask_because(f"it sets {name}, which may change what runs"))
        if simple.words:
            earlier = [each for each, _ in before]
            judged.append(self._decide_log(simple, folders, before) or self._decide_command(simple, folders, earlier))
        return judged or [_ask_because("it sets a variable for later commands")]

    def _decide_log(
        self, simple: SimpleCommand, folders: frozenset[str], before: Sequence[_Decided]
    ) -> PolicyDecision | None:
        # `tee LOG` is allowed with the command whose output it writes.
        files = log_files(simple.words)
        feeding = len(pipeline_before(simple, [each for each, _ in before]))
        given = [part for _, parts in before[len(before) - feeding :] for part in parts]
        rule = next((each.rule for each in given if each.decision == "allow" and each.rule != "read-only"), None)
        inside = not any(
            self._workspace.away(word, folders) or self._workspace.protected(word, folders) for word in files
        )
        if not files or rule is None or not inside:
            return None
        return PolicyDecision("allow", rule, f"the rule `{rule}` allows a log of its output")

    def _decide_redirect(self, redirect: Redirect, folders: frozenset[str]) -> PolicyDecision | None:
        target = redirect.target
        if redirect.duplicates or redirect.is_text or target.text in HARMLESS_SINKS:
            return None
        # Bash expands a glob after a redirect if it matches exactly one file.
        if target.glob or target.loose:
            return _ask_because(f"`{target.text}` may be any file")
        if away := self._workspace.away(target, folders):
            return _ask_because(f"{away} is outside the workspace")
        if redirect.writes:
            return PolicyDecision("ask", "file_write", f"it writes {target.text}")
        return None

    def _decide_command(
        self, simple: SimpleCommand, folders: frozenset[str], before: Sequence[SimpleCommand]
    ) -> PolicyDecision:
        access = self._analysis.analyze(simple.words, folders, pipeline_before(simple, before))
        if isinstance(access, ReadAccess):
            access = self._too_far(access, folders)
            if access is None:
                return PolicyDecision("allow", "read-only", f"`{simple.words[0].text}` only reads")
        if decided := self._by_rule(simple, folders):
            return decided
        if inner := limited_command(simple.words):
            return self._decide_command(msgspec.structs.replace(simple, words=inner), folders, before)
        name = simple.words[0].text
        match access:
            case ConfiguredProgram(setting=setting):
                return PolicyDecision("ask", f"git:{setting}", _configured_effect(setting))
            case str():
                return _ask_because(f"`{name}`: {access}")
            case None:
                return _ask_because(f"`{name}` is not known to be read-only, and no rule allows it")

    def _too_far(self, access: ReadAccess, folders: frozenset[str]) -> str | None:
        """Return why a read-only command still needs approval; None if it does not."""
        if away := next((path for word in access.paths if (path := self._outside_reason(word, folders))), None):
            return f"{away} is outside the workspace"
        if not self._context.reading_allowed:
            return "only commands that a rule allows may run here"
        found = access.search.found_secret(self._workspace, folders) if access.search else None
        return None if found is None else f"it searches folders, and {found} contains secrets"

    def _outside_reason(self, word: Word, folders: frozenset[str]) -> str | None:
        return None if word.text in HARMLESS_SINKS | {"-"} else self._workspace.away(word, folders)

    def _by_rule(self, simple: SimpleCommand, folders: frozenset[str]) -> PolicyDecision | None:
        """Return the decision of the first matching rule; None without one."""
        for rule in self._context.allow:
            named = _rule_match(rule, simple.words)
            if named is None:
                continue
            # A rule that spells out the whole command was written for exactly this, risks included.
            if not named.whole and (problem := self._uncovered_reason(simple.words, named, folders)):
                return _ask_because(f"the rule `{rule}` does not cover it: {problem}")
            files, folder = self._workspace.files, f"{self._workspace.root.rstrip('/')}/.git"
            for line in files.text(folder).splitlines():  # in a worktree, a file names the folder
                folder = os.path.join(self._workspace.root, line.removeprefix("gitdir:").strip())  # noqa: PTH118 - keeps `..`
            current = files.text(f"{folder}/HEAD").strip().removeprefix("ref: refs/heads/")
            if branch := pushed_branch(simple.words, named.sure, current):
                return _ask_because(f"it pushes to the protected branch {branch}; only a rule that names it allows it")
            return PolicyDecision("allow", str(rule), f"the rule `{rule}` allows it")
        return None

    def _uncovered_reason(self, words: tuple[Word, ...], named: RuleMatch, folders: frozenset[str]) -> str | None:
        """Return why a matching rule does not cover the whole command; None if it does."""
        program, free = named.words[0], words[named.sure :]
        if not rule_names_enough(named.words):
            return f"`{program}` executes its arguments; only a rule with the whole command can allow it"
        if found := named.flag or find_risk(words, named.words):
            return f"`{found}` changes what it does; only a rule that names it can allow it"
        subcommand = next((word.text.casefold() for word in words[1:] if not word.text.startswith("-")), "")
        if program == "git" and (setting := any_program_setting(self._context.settings, subcommand)):
            return _configured_effect(setting)
        if program_name(words[0]) in WRITERS and (found := self._too_much(free, folders)):
            return f"`{found}` may refer to more than one file in the workspace"
        return next((found for word in free if (found := self._beyond_word(word, folders))), None)

    def _too_much(self, words: tuple[Word, ...], folders: frozenset[str]) -> str | None:
        # A program that writes could change many files, or the whole workspace, by one such word.
        homes = {self._workspace.root, self._workspace.files.real(self._workspace.root)}
        for word in words:
            if word.glob or homes & set(self._workspace.reached(word.text, folders, tilde=word.tilde)):
                return word.text
        return None

    def _beyond_word(self, word: Word, folders: frozenset[str]) -> str | None:
        if word.loose:
            return f"`{word.text}` may become any words"
        if word.glob and word.text[0] in "*?[":
            return f"`{word.text}` may match a file whose name is a flag"
        for part in path_candidates(word):
            climbs = part.tilde or part.text.startswith("/") or ".." in part.text.split("/")
            if climbs and (away := self._outside_reason(part, folders)):
                return f"{away} is outside the workspace"
            # A text with spaces, such as a commit message, is no path, even if it ends in a protected name.
            spaced = any(char.isspace() for char in part.text)
            if not spaced and (entry := self._workspace.protected(part, folders)):
                return f"{part.text} is protected ({entry})"
        return None


def _rule_match(rule: Rule, words: tuple[Word, ...]) -> RuleMatch | None:
    """Return the part of a command that a rule matches; None if it does not match."""
    texts = tuple(word.text for word in words)
    match parse_pattern(rule.pattern):
        case PrefixPattern(globs=globs) as pattern if globs and pattern.matches(texts):
            # What the shell still expands is not what the user of the rule had in mind.
            return _match_globs(globs, words) if all(word.literal for word in words[: len(globs)]) else None
        case RegexPattern() as pattern if all(word.literal for word in words) and pattern.matches(texts):
            return RuleMatch(texts, sure=1)
        case _:
            return None


def _match_globs(globs: CommandPrefix, words: tuple[Word, ...]) -> RuleMatch:
    texts = tuple(word.text for word in words[: len(globs)])
    open_at = [at for at, glob in enumerate(globs) if escape_words((texts[at],)) != (glob,)]
    # `git *` must not cover `git --exec-path=...`: a wildcard stands for a word, not for a flag.
    flag = next((texts[at] for at in open_at if texts[at].startswith("-") and not globs[at].startswith("-")), "")
    return RuleMatch(
        texts, sure=open_at[0] if open_at else len(globs), whole=not open_at and len(texts) == len(words), flag=flag
    )


def _configured_effect(setting: str) -> str:
    if setting.startswith(EMBEDDED):
        return (
            f"git also works in the repository inside {setting.removeprefix(EMBEDDED)}, by that repository's settings"
        )
    return f"the repository's setting {setting} makes git run a program"


def _ask_because(reason: str) -> PolicyDecision:
    return PolicyDecision("ask", "shell", reason)


def is_harmless_assignment(name: str, value: str, words: tuple[Word, ...], workspace: WorkspacePaths) -> bool:
    """Return whether a variable before this command changes nothing that matters.

    A folder of the workspace on PYTHONPATH is harmless for tests: they run the workspace's code anyway.
    """
    if known := HARMLESS_VARIABLES.get(name):
        return known.fullmatch(value) is not None
    if name != "PYTHONPATH" or not _runs_tests(words) or not _FOLDERS.fullmatch(value):
        return False
    root = frozenset({workspace.root})
    return not any(workspace.away(Word(folder), root) for folder in value.split(":"))


def _runs_tests(words: tuple[Word, ...]) -> bool:
    texts = [word.text for word in words[:3]]
    if texts[1:2] == ["-m"] and re.fullmatch(r"python[\d.]*", program_name(words[0])):
        return texts[2:] in (["pytest"], ["unittest"])
    return texts[:1] == ["pytest"]


def log_files(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the files that `tee` writes if their names are those of logs; empty for other programs and names."""
    files = tuple(word for word in words[1:] if word.text not in {"-a", "--append", "-i"})
    is_log = all(word.literal and _LOG.fullmatch(word.text) for word in files)
    return files if is_log and words[:1] == (Word("tee"),) else ()
