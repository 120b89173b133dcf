"""Analyse whether a simple command only reads, and what: by lists of programs, and for git by its settings.

Also commands that run another one: `xargs` and `find -exec` only read if that command does, whatever the names.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from scaffold.policy.shell.parsed_command import SimpleCommand, Word
from scaffold.policy.shell.reading.flags import parse_arguments
from scaffold.policy.shell.reading.nested_commands import FileNames, InnerCommand, piped_command, split_find
from scaffold.policy.shell.reading.readonly_arguments import ARGUMENT_PARSERS, ReadAccess, ReadAnalysis
from scaffold.policy.shell.reading.readonly_commands import READ_ONLY_COMMANDS, VERSION_PROGRAMS
from scaffold.policy.shell.reading.readonly_git import ConfiguredProgram, analyze_git
from scaffold.policy.shell.reading.search_scope import SearchScope, named_globs, search_scope
from scaffold.policy.shell.workspace_paths import MAX_ENTRIES, WorkspacePaths

MAX_NAMES = 20_000
"""More names below a folder are not searched for one that `xargs` would split."""
PRINTERS = frozenset({"echo", "printf"})
"""Programs that only print their arguments: any number of words is harmless."""

_ENDS_ARGUMENT = frozenset(" \t\n\v\f\r'\"\\")
Analysis = ReadAnalysis | ConfiguredProgram | None
"""The reads of a command, or why it may do more than read; None for an unknown program."""


class ReadAnalyzer(Struct, frozen=True):
    """Analyses the simple commands of one workspace."""

    workspace: WorkspacePaths
    settings: frozenset[str]
    """Names of the repository's own settings, as in `DecisionContext`."""

    def analyze(
        self, words: tuple[Word, ...], folders: frozenset[str], pipeline: Sequence[SimpleCommand] = ()
    ) -> Analysis:
        """Return the reads of a command in one of `folders`; `pipeline` are the commands before it, up to its pipe."""
        if not words or not words[0].literal:
            return None
        name, arguments = words[0].text, words[1:]
        if name not in PRINTERS and any(word.loose for word in arguments):
            return "may get any arguments from a variable without quotes"
        if len(arguments) == 1 and name in VERSION_PROGRAMS and arguments[0].text in {"--version", "-V"}:
            return ReadAccess()
        if name == "git":
            return self._analyse_git(arguments, folders)
        if name == "xargs":
            inner = piped_command(words, pipeline)
            return self._analyse_inner(inner, folders) if inner else "runs a command with names that are not known"
        return self._analyse_find(arguments, folders) if name == "find" else _by_lists(name, arguments)

    def _analyse_find(self, arguments: tuple[Word, ...], folders: frozenset[str]) -> Analysis:
        split = split_find(arguments)
        if split is None:
            return "runs a command that is not clear"
        rest, commands = split
        found = _by_lists("find", rest)
        for inner in commands:
            access = self._analyse_inner(inner, folders)
            if not isinstance(found, ReadAccess) or not isinstance(access, ReadAccess):
                return found if not isinstance(found, ReadAccess) else access
            found = ReadAccess(
                (*found.paths, *access.paths),
                names_only=found.names_only and access.names_only,
                search=access.search or found.search,
            )
        return found

    def _analyse_inner(self, inner: InnerCommand, folders: frozenset[str]) -> Analysis:
        access = self.analyze(inner.words, folders)
        if not isinstance(access, ReadAccess):
            name = inner.words[0].text
            return f"runs `{name}`, which {access}" if isinstance(access, str) else access or f"runs `{name}`"
        if (problem := self._split_name(inner.names, folders)) is not None:
            return f"may read `{problem}` as more than one name"
        stand_ins = frozenset(inner.names.stand_in)
        paths = tuple(word for word in access.paths if word not in stand_ins)
        scope = SearchScope(places=inner.names.starts, filters=inner.names.filters, follows=True)
        if access.names_only:
            return ReadAccess((*paths, *inner.names.starts), names_only=True)
        return ReadAccess((*paths, *inner.names.starts, *named_globs(scope)), search=scope)

    def _split_name(self, names: FileNames, folders: frozenset[str]) -> str | None:
        """Return a name below the folders that contains a blank or a quote; None if each name is one argument."""
        if names.whole:
            return None
        starts = [
            path for word in names.starts for path in self.workspace.reached(word.text, folders, tilde=word.tilde)
        ]
        pending, walked = starts or sorted(folders), 0
        odd = next((word.text for word in names.starts if _ENDS_ARGUMENT.intersection(word.text)), None)
        while pending and odd is None:
            folder = pending.pop()
            for entry in self.workspace.files.entries(folder):
                walked += 1
                if walked > MAX_NAMES or _ENDS_ARGUMENT.intersection(entry.name):
                    odd = entry.name
                if entry.is_folder:
                    pending.append(f"{folder.rstrip('/')}/{entry.name}")
        return odd

    def _analyse_git(self, arguments: tuple[Word, ...], folders: frozenset[str]) -> ReadAnalysis | ConfiguredProgram:
        if len(arguments) > 2 and arguments[0] == Word("-C") and arguments[1].literal:
            return self._git_in(arguments[1], arguments[2:], folders)
        access = analyze_git(arguments, self.settings)
        homes = {self.workspace.root, self.workspace.files.real(self.workspace.root)}
        if isinstance(access, ReadAccess) and not all(self._finds_ours(folder, homes) for folder in folders):
            return "it runs in another folder, which may be another repository"
        return access

    def _git_in(
        self, place: Word, arguments: tuple[Word, ...], folders: frozenset[str]
    ) -> ReadAnalysis | ConfiguredProgram:
        # Paths are relative to the place that `-C` names.
        if not place.text or place.text.startswith("-"):
            return "works in an unknown folder"
        access = self._analyse_git(arguments, frozenset(self.workspace.reached(place.text, folders)))
        if not isinstance(access, ReadAccess):
            return access
        below = tuple(msgspec.structs.replace(word, text=f"{place.text}/{word.text}") for word in access.paths)
        search = msgspec.structs.replace(access.search, places=(place,)) if access.search else None
        return ReadAccess((place, *access.paths, *below), search=search)

    def _finds_ours(self, folder: str, homes: set[str]) -> bool:
        # The folder must exist, without a repository between it and the workspace's.
        while folder not in homes:
            # A bare repository needs no `.git`: git takes a folder with HEAD for one, and obeys its settings.
            names = {entry.name.casefold() for entry in self.workspace.files.entries(folder)}
            # No entries may also mean that the folder cannot be read; with the maximum, the list is cut.
            if self.workspace.outside(folder) or not 0 < len(names) < MAX_ENTRIES or names & {".git", "head"}:
                return False
            folder = folder.rpartition("/")[0]
        return True


def pipeline_before(simple: SimpleCommand, before: Sequence[SimpleCommand]) -> tuple[SimpleCommand, ...]:
    """Return the commands whose output a command reads through pipes, the nearest last; none with another input."""
    if any(redirect.operator in {"<", "<<", "<>", "<&"} for redirect in simple.redirects):
        return ()
    link, found = simple.link, 0
    while link == "|" and found < len(before):
        found += 1
        link = before[-found].link
    return tuple(before[len(before) - found :])


def _by_lists(name: str, arguments: tuple[Word, ...]) -> ReadAnalysis | None:
    if name == "cd":
        if len(arguments) != 1 or arguments[0].glob or arguments[0].text.startswith("-"):
            return "changes to an unknown folder"
        return ReadAccess(arguments, names_only=True)
    if expression := ARGUMENT_PARSERS.get(name):
        return expression(arguments)
    if (known := READ_ONLY_COMMANDS.get(name)) is None:
        return None
    given = parse_arguments(arguments, known)
    if isinstance(given, str):
        return given
    search = search_scope(name, given)
    named = named_globs(search) if search else ()
    return ReadAccess((*given.paths, *named), names_only=known.names_only, search=search)
