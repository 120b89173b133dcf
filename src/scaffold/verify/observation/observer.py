"""Observe which changed lines the Python and Node processes of a check execute, and how their tests end.

Their reports are not trusted: a wrong report can make work look more or less exercised, but makes no check pass.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from scaffold.host.atomic_files import delete_folder_if_possible
from scaffold.host.contained_path import ContainedPath
from scaffold.host.leftovers import new_temporary_folder
from scaffold.verify.observation import node_coverage
from scaffold.verify.observation.changed_code import NOTHING, ChangedCode
from scaffold.verify.observation.injected import scaffold_observation as injected
from scaffold.verify.observation.injected.scaffold_observation_lines import MARKS
from scaffold.verify.observation.injected.scaffold_observation_tests import ONLY
from scaffold.verify.observation.node_coverage import NodeLines, Report, SourceLines
from scaffold.verify.observation.test_runs import ObservedOutcome, read_test_runs
from scaffold.verify.paths.conventions import is_test

INJECTED_FOLDER = Path(injected.__file__).resolve().parent
FOLDER_VARIABLE = "SCAFFOLD_OBSERVATION"
MARKER = b"scaffold_observation"
"""Part of all our names inside a process: output with it may come from a program that we disturbed."""
NODE_FOLDER = "node"
MAX_NOTES_BYTES = 1_000_000


class Observation(Struct, frozen=True, kw_only=True):
    """The observation of one check."""

    seen: bool = False
    """Whether any process was observed."""
    complete: bool = False
    """Whether nothing is known to have run unobserved."""
    ended_by_work: bool = False
    """Whether the change ended a program given as text in the check, successfully or without a trace."""
    executed: Mapping[str, frozenset[int]] = {}
    """The changed lines that ran, by file."""
    in_functions: Mapping[str, frozenset[int]] = {}
    """The changed lines inside functions of JavaScript files that were loaded."""
    tests: Mapping[str, ObservedOutcome] = {}
    """By file and name as pytest writes them; a file that could not be loaded, or skips itself, by its path."""
    not_run: frozenset[str] = frozenset()
    """The tests that pytest collected but that have no observed outcome."""
    began: bool = False
    """Whether a run of pytest or unittest began in the checkout, not counting runs inside tests."""
    unfinished: bool = False
    """Whether a run did not end."""
    readers: Mapping[str, frozenset[str]] = {}
    """The files of Python code that opened a watched file, or called code that did, by watched file."""


class CheckObserver:
    """Observes checks in one checkout; `observations` are the results by command."""

    def __init__(self, code: ChangedCode = NOTHING, *, only: Sequence[str] = (), watched: Sequence[str] = ()) -> None:
        """`code` are the changed lines; without any, only tests are observed. pytest runs `only` the tests in files.

        Who reads the `watched` files is observed in Python alone.
        """
        self.code = code
        self._files = {ONLY: only, injected.READS: watched}
        self.observations: dict[str, Observation] = {}
        self._marked = code.marked()

    @asynccontextmanager
    async def watch(
        self, command: str, top: Path, environ: Mapping[str, str], parent: Path | None
    ) -> AsyncIterator[dict[str, str]]:
        """Yield the variables that make a command observed, and read its processes' reports afterwards.

        `parent` is a folder that the command may write; None for the system's temporary folder.
        """
        folder = new_temporary_folder("observed", parent)
        top = top.resolve()  # noqa: ASYNC240
        try:
            lines, first = list[str](), 0
            for path, groups in self._marked.items():
                file, numbers = self.code.python[path], [str(group.number) for group in groups]
                name = os.fsencode(top / path).hex()
                lines.append(" ".join((name, str(file.size), str(file.checksum), str(first), *numbers)))
                first += len(groups)
            (folder / injected.ORDER).write_text("".join(f"{line}\n" for line in lines))
            for order, files in self._files.items():
                if files:
                    names = (os.fsencode(top / path).hex() for path in files)
                    (folder / order).write_text("".join(f"{name}\n" for name in names))
            # A mapping of nothing is an error.
            (folder / MARKS).write_bytes(bytes(max(first, 1)))
            paths = os.pathsep.join(filter(None, (str(INJECTED_FOLDER), environ.get("PYTHONPATH"))))
            # A project that collects this coverage itself goes on doing so.
            watches_node = self.code.javascript and node_coverage.VARIABLE not in environ
            node = {node_coverage.VARIABLE: str(folder / NODE_FOLDER)} if watches_node else {}
            yield {"PYTHONPATH": paths, FOLDER_VARIABLE: str(folder), **node}
            self.observations[command] = await asyncio.to_thread(self._read_observation, folder, top)
        finally:
            delete_folder_if_possible(folder)

    def _read_observation(self, folder: Path, top: Path) -> Observation:
        notes = _read_notes(folder / injected.NOTES)
        complete = notes.complete
        executed = self._executed_python(folder / MARKS)
        if executed is None:
            executed, complete = {}, False
        node = _read_node(folder / NODE_FOLDER, top, self.code.javascript)
        runs = read_test_runs(folder, top)
        return Observation(
            seen=notes.seen or node.seen,
            ended_by_work=notes.ended_by_work,
            complete=complete and node.complete,
            executed=executed | {path: each.executed for path, each in node.lines.items()},
            in_functions={path: each.in_functions for path, each in node.lines.items() if each.loaded},
            tests=runs.outcomes,
            not_run=runs.not_run,
            began=runs.began,
            unfinished=runs.unfinished,
            readers=_readers_by_file(notes.reads, top),
        )

    def _executed_python(self, marks: Path) -> dict[str, frozenset[int]] | None:
        """Return the lines whose marks are set, by file; None if the marks are not as we made them."""
        groups = [(path, group) for path, groups in self._marked.items() for group in groups]
        data = ContainedPath(marks.parent, marks.name).read(len(groups) or 1)
        if isinstance(data, str) or len(data) != max(len(groups), 1):
            return None
        found = dict[str, frozenset[int]]()
        for (path, group), mark in zip(groups, data, strict=False):
            if mark:
                found[path] = found.get(path, frozenset()) | frozenset(group.lines)
        return found


class _NodeObservation(Struct, frozen=True):
    seen: bool
    complete: bool
    lines: Mapping[str, NodeLines]


class _Notes(Struct, frozen=True):
    """The notes of the Python processes of a check."""

    seen: bool
    """Whether there was one."""
    complete: bool
    """Whether all were observed, as far as is known."""
    ended_by_work: bool = False
    """Whether the change ended a process whose program is text in the check."""
    reads: Sequence[Sequence[str]] = ()
    """Pairs of a watched file and code that read it, in hex."""


def _read_notes(path: Path) -> _Notes:
    data = ContainedPath(path.parent, path.name).read(MAX_NOTES_BYTES)
    if isinstance(data, str):
        return _Notes(seen=path.exists(), complete=not path.exists())
    notes = [line.split() for line in data.decode(errors="replace").splitlines()]
    started = {note[1]: note[2] for note in notes if len(note) == 3 and note[0] == "start"}
    parents = frozenset(started.values())
    ends = [note[1:] for note in notes if len(note) == 4 and note[0] == "end"]
    # Unobserved children may have run anything.
    unseen = any(children != "0" and pid not in parents for pid, children, _ in ends)
    # Not workers of multiprocessing and the like, whose programs are text as well.
    outer = [note for note in notes if len(note) == 2 and note[1] in started and started[note[1]] not in started]
    # A process that becomes another program keeps its number.
    without_end = Counter(pid for word, pid in outer if word == "text") - Counter(pid for pid, *_ in ends)
    return _Notes(
        seen=bool(notes),
        complete=not unseen and all(unmarked == "0" for _, _, unmarked in ends),
        ended_by_work=bool(without_end) or any(word == "exits" for word, _ in outer),
        reads=[note[1:] for note in notes if len(note) == 3 and note[0] == "read"],
    )


def _readers_by_file(reads: Sequence[Sequence[str]], top: Path) -> Mapping[str, frozenset[str]]:
    found = dict[str, frozenset[str]]()
    for names in reads:
        try:
            path, reader = (Path(os.fsdecode(bytes.fromhex(name))).relative_to(top).as_posix() for name in names)
        # Code from elsewhere; or not written by us.
        except ValueError:
            continue
        found[path] = found.get(path, frozenset()) | {reader}
    return found


def _read_node(folder: Path, top: Path, files: Mapping[str, SourceLines]) -> _NodeObservation:
    reports = node_coverage.read_reports(folder)
    if not reports:
        return _NodeObservation(seen=reports is None, complete=reports is not None, lines={})
    seen = node_coverage.lines_seen(reports, {str(top / path): lines for path, lines in files.items()})
    lines = {path: seen[str(top / path)] for path in files}
    as_written = not any(each.transformed for each in lines.values()) and _runs_files(reports, top)
    return _NodeObservation(seen=True, complete=as_written, lines=lines)


def _runs_files(reports: tuple[Report, ...], top: Path) -> bool:
    loaded = [Path(path) for path in node_coverage.loaded_files(reports)]
    tools = any("node_modules" in path.parts and "npm" not in path.parts for path in loaded)
    own = (path.relative_to(top) for path in loaded if path.is_relative_to(top))
    return not tools or any("node_modules" not in path.parts and is_test(path.as_posix()) for path in own)
