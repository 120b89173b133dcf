"""Completion of commands, their arguments, and files attached with `@`."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter, merge_completers
from prompt_toolkit.document import Document

from scaffold.agent.modes import CHOSEN_MODES
from scaffold.config.schema.parsers import SIZES
from scaffold.core.printable_text import printable
from scaffold.host.folder_tree import is_folder
from scaffold.session.current_conversation import CurrentConversation
from scaffold.session.slash.queries import MODE_SUMMARIES
from scaffold.session.slash.syntax import CommandSyntax

MAX_SUGGESTIONS = 50
ENOUGH_IN_FOLDER = 10
"""With fewer matches in the folder itself, subfolders are searched."""
MAX_SCANNED = 20_000
"""The most names taken from one folder, and read in a whole tree."""
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
"""Folders that are not searched; `.git` is not even listed."""

_UNQUOTABLE = re.compile(r'["\n]')
"""Characters that cannot occur in an attached name."""

_COMMAND = re.compile(r"/(?P<name>[a-z_-]*)")
_ARGUMENT = re.compile(r"/(?P<name>[a-z_-]+)\s+(?P<words>\S*)", re.IGNORECASE)
_ATTACHMENT = re.compile(r'(?<!\S)@(?P<quote>"?)(?P<path>[^"\s]*|(?<=")[^"\n]*)$')


class Suggestion(Struct, frozen=True):
    """One completion: `text` replaces the last `replaced` characters; `about` describes it."""

    text: str
    replaced: int
    shown: str
    about: str = ""


ValuesFor = Callable[[str], Sequence[tuple[str, str]]]
"""Returns the possible arguments of the command with this name, each with a description."""


def completion_values(command: str, current: CurrentConversation) -> Sequence[tuple[str, str]]:
    """Return the possible arguments of a command, each with a description; nothing for most commands."""
    match command:
        case "model":
            offers = current.models.offers(current.session.model)
            return [
                *((size, "") for size in sorted(SIZES)),
                *((each.model, each.why_not or each.about) for each in offers),
            ]
        case "mode":
            return [(mode, MODE_SUMMARIES.get(mode, "")) for mode in CHOSEN_MODES]
        case "resume":
            return [(each.id, " ".join(each.title.split())) for each in current.listed()]
        case "agents":
            return [(agent.name, agent.task) for agent in current.session.peers.subagents()]
    return ()


class SuggestionCompleter(Completer):
    """Completes the text before the cursor."""

    def __init__(self, find: Callable[[str], Iterator[Suggestion]]) -> None:
        self._find = find

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        """Yield completions, the most likely first."""
        for found in islice(self._find(document.text_before_cursor), MAX_SUGGESTIONS):
            shown, about = printable(found.shown), printable(found.about)
            yield Completion(found.text, -found.replaced, display=shown, display_meta=about)


def completer(cwd: Path, values: ValuesFor, commands: Sequence[CommandSyntax]) -> Completer:
    """Return a completer: commands complete at once, files in a thread while the user types on."""
    # A large tree takes longer to read than the time between two keys.
    files = ThreadedCompleter(SuggestionCompleter(lambda before: file_suggestions(before, cwd)))
    return merge_completers([SuggestionCompleter(lambda before: command_suggestions(before, values, commands)), files])


def command_suggestions(before: str, values: ValuesFor, commands: Sequence[CommandSyntax]) -> Iterator[Suggestion]:
    """Yield commands, or the possible arguments of one."""
    if command := _COMMAND.fullmatch(before):
        typed = command["name"]
        for each in commands:
            if each.name.startswith(typed):
                yield Suggestion(f"/{each.name}" + (" " if each.words else ""), len(before), each.usage, each.summary)
    elif argument := _ARGUMENT.fullmatch(before):
        typed, name = argument["words"], argument["name"].lower()
        fixed = [(word, "") for each in commands if each.name == name for word in each.completions]
        for value, about in (*fixed, *values(name)):
            if typed.lower() in value.lower():
                yield Suggestion(value, len(typed), value, about)


def file_suggestions(before: str, cwd: Path) -> Iterator[Suggestion]:
    """Yield files to attach."""
    if named := _ATTACHMENT.search(before):
        yield from _file_suggestions(named["path"], len(named["path"]) + len(named["quote"]), cwd)


def _file_suggestions(typed: str, replaced: int, cwd: Path) -> Iterator[Suggestion]:
    folder, _, start = typed.rpartition("/")
    place = (Path(folder).expanduser() if folder.startswith("~") else cwd / folder) if folder else cwd
    place = Path("/") if typed.startswith("/") and not folder else place
    head = f"{folder}/" if "/" in typed else ""
    found = 0
    for entry in sorted(_folder_entries(place, start.lower()), key=lambda each: (not is_folder(each), each.name)):
        if entry.name != ".git" and (start.startswith(".") or not entry.name.startswith(".")):
            found += 1
            yield _file_suggestion(f"{head}{entry.name}{'/' if is_folder(entry) else ''}", replaced)
    if found < ENOUGH_IN_FOLDER and len(start) > 1 and not head and not start.startswith("."):
        for path in _files_below(cwd, start.lower()):
            yield _file_suggestion(path, replaced)


def _files_below(root: Path, wanted: str) -> Iterator[str]:
    """Yield the paths of files below `root` whose name contains `wanted`, nearest first."""
    folders, looked = [root], 0
    while folders and looked < MAX_SCANNED:
        deeper: list[Path] = []
        for folder in folders:
            for entry in _folder_entries(folder):
                looked += 1
                if is_folder(entry):
                    # A link to a folder above would make the walk endless.
                    if entry.name not in SKIPPED and not entry.is_symlink():
                        deeper.append(Path(entry.path))
                elif folder != root and wanted in entry.name.lower():
                    yield os.path.relpath(entry.path, root)
            if looked >= MAX_SCANNED:
                return
        folders = deeper


def _folder_entries(folder: Path, start: str = "") -> Sequence[os.DirEntry[str]]:
    """Return at most `MAX_SCANNED` entries that begin with `start`; none if the folder is unreadable."""
    try:
        with os.scandir(folder) as entries:
            matching = (each for each in entries if each.name.lower().startswith(start))
            return list(islice((each for each in matching if not _UNQUOTABLE.search(each.name)), MAX_SCANNED))
    except OSError:
        return ()


def _file_suggestion(path: str, replaced: int) -> Suggestion:
    quoted = f'"{path}"' if re.search(r"\s", path) else path
    return Suggestion(quoted, replaced, path)
