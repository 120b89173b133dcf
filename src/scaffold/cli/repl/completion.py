"""Completion: commands and what may follow them, and files that are attached with `@`."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter, merge_completers
from prompt_toolkit.document import Document

from scaffold.core.printable_text import printable
from scaffold.session.slash_queries import ExtraCommand
from scaffold.session.slash_syntax import COMMANDS, COMPLETION_WORDS, CommandSyntax

MAX_SUGGESTIONS = 50
"""Completions that are offered."""
ENOUGH_IN_FOLDER = 10
"""With fewer in the folder itself, files of such a name are looked for below."""
MAX_SCANNED = 20_000
"""Names that fit which are taken from a folder; names that are looked at in a whole tree."""
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
"""Folders that no name is searched in; `.git` is not even named."""

_UNQUOTABLE = re.compile(r'["\n]')
"""What no name after `@` can hold."""

_COMMAND = re.compile(r"/(?P<name>[a-z_-]*)")
_ARGUMENT = re.compile(r"/(?P<name>[a-z_-]+)\s+(?P<words>\S*)", re.IGNORECASE)
_ATTACHMENT = re.compile(r'(?<!\S)@(?P<quote>"?)(?P<path>[^"\s]*|(?<=")[^"\n]*)$')


class Suggestion(Struct, frozen=True):
    """One way to go on: what is typed becomes the last `replaced` characters' place, `about` says what it is."""

    text: str
    replaced: int
    shown: str
    about: str = ""


ValuesFor = Callable[[str], Sequence[tuple[str, str]]]
"""Returns what may follow a command of this name, each with a word about it."""


class SuggestionCompleter(Completer):
    """Offers what may stand in the place of the end of the text before the cursor."""

    def __init__(self, find: Callable[[str], Iterator[Suggestion]]) -> None:
        self._find = find

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        """Yield completions, the likeliest first."""
        for offer in islice(self._find(document.text_before_cursor), MAX_SUGGESTIONS):
            shown, about = printable(offer.shown), printable(offer.about)
            yield Completion(offer.text, -offer.replaced, display=shown, display_meta=about)


def completer(cwd: Path, names: ValuesFor, own: Sequence[ExtraCommand] = ()) -> Completer:
    """Return what completes commands at once, and files while one goes on typing."""
    files = ThreadedCompleter(SuggestionCompleter(lambda before: file_suggestions(before, cwd)))
    return merge_completers([SuggestionCompleter(lambda before: command_suggestions(before, names, own)), files])


def command_suggestions(before: str, names: ValuesFor, own: Sequence[ExtraCommand] = ()) -> Iterator[Suggestion]:
    """Yield commands, those of the talk's own first, or what may follow one."""
    if command := _COMMAND.fullmatch(before):
        typed = command["name"]
        named = {each.name for each in own}
        listed: Sequence[ExtraCommand | CommandSyntax] = (*own, *(each for each in COMMANDS if each.name not in named))
        for each in listed:
            if each.name.startswith(typed):
                yield Suggestion(f"/{each.name}" + (" " if each.words else ""), len(before), each.usage, each.summary)
    elif argument := _ARGUMENT.fullmatch(before):
        typed = argument["words"]
        fixed = [(word, "") for word in COMPLETION_WORDS.get(argument["name"].lower(), ())]
        for name, about in (*fixed, *names(argument["name"].lower())):
            if typed.lower() in name.lower():
                yield Suggestion(name, len(typed), name, about)


def file_suggestions(before: str, cwd: Path) -> Iterator[Suggestion]:
    """Yield files that may be attached."""
    if named := _ATTACHMENT.search(before):
        yield from _files(named["path"], len(named["path"]) + len(named["quote"]), cwd)


def _files(typed: str, replaced: int, cwd: Path) -> Iterator[Suggestion]:
    """Yield files of the folder that is named so far; then files of that name anywhere below."""
    folder, _, start = typed.rpartition("/")
    place = (Path(folder).expanduser() if folder.startswith("~") else cwd / folder) if folder else cwd
    place = Path("/") if typed.startswith("/") and not folder else place
    head = f"{folder}/" if "/" in typed else ""
    found = 0
    for entry in sorted(_entries(place, start.lower()), key=lambda each: (not _is_folder(each), each.name)):
        if entry.name != ".git" and (start.startswith(".") or not entry.name.startswith(".")):
            found += 1
            yield _suggestion(f"{head}{entry.name}{'/' if _is_folder(entry) else ''}", replaced)
    if found < ENOUGH_IN_FOLDER and len(start) > 1 and not head and not start.startswith("."):
        for path in _below(cwd, start.lower()):
            yield _suggestion(path, replaced)


def _below(root: Path, wanted: str) -> Iterator[str]:
    """Yield paths of files below `root`, not directly in it, whose name holds `wanted`; what is near comes first."""
    folders, looked = [root], 0
    while folders and looked < MAX_SCANNED:
        deeper: list[Path] = []
        for folder in folders:
            for entry in _entries(folder):
                looked += 1
                if _is_folder(entry):
                    if entry.name not in SKIPPED and not entry.is_symlink():
                        deeper.append(Path(entry.path))
                elif folder != root and wanted in entry.name.lower():
                    yield os.path.relpath(entry.path, root)
            if looked >= MAX_SCANNED:
                return
        folders = deeper


def _entries(folder: Path, start: str = "") -> Sequence[os.DirEntry[str]]:
    """Return the names in a folder that begin with `start`, not all if they are very many; none if it is unreadable."""
    try:
        with os.scandir(folder) as entries:
            named = (each for each in entries if each.name.lower().startswith(start))
            return list(islice((each for each in named if not _UNQUOTABLE.search(each.name)), MAX_SCANNED))
    except OSError:
        return ()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _suggestion(path: str, replaced: int) -> Suggestion:
    quoted = f'"{path}"' if re.search(r"\s", path) else path
    return Suggestion(quoted, replaced, path)
