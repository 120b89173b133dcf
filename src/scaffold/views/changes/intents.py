"""Group a change by intent: each part under the line of a contract that it serves, those that serve none first. Pure.

A part serves a line if evidence says so: a check executed its lines, ran the tests in it or names its file; a file had
to exist; tests of a check name its code; or, weakest, the task declares the file. What an agent claims is no evidence.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct, structs

from scaffold.core.ids import ActionKey
from scaffold.core.printable_text import count_of
from scaffold.git.patch import PatchFile, PatchHunk, PatchLine
from scaffold.policy.path.globs import matches
from scaffold.verify.contract.tamper_detection import runs_tests
from scaffold.verify.paths.conventions import is_test
from scaffold.verify.paths.declared_paths import covers, is_specific

IntentKind = Literal["none", "check", "must_exist", "must_not_exist", "files", "generated"]
"""Serves no line | a command | a file that must exist, or must not | files that the task declares | made by a tool."""
MIN_NAME = 3
MIN_MOVED = 3
"""A shorter part may equal another one by chance."""
MAX_MOVES = 20
"""How many places with the same first line are compared."""
_DEFINED = re.compile(
    r"\b(?:def|class|function|func|fn|interface|struct|type|const|let|var|enum|trait|module|sub)\s+\*?(?:\([^)]*\)\s*)?"
    r"([A-Za-z_$][\w$]*)|^([A-Za-z_$][\w$.]*)\s*(?::[^=]+)?=[^=]"
)
_COMMAND_PATH = re.compile(r"[\w@+.~-][\w@+./~-]*")


class CheckEvidence(Struct, frozen=True, kw_only=True):
    """What a check of a contract is known to have reached."""

    name: str
    """The command."""
    executed: Mapping[str, frozenset[int]] = {}
    """The changed lines that it executed, by path, with their numbers after the change."""
    tests: frozenset[str] = frozenset()
    """The files whose tests it ran."""
    words: Mapping[str, frozenset[str]] = {}
    """The identifiers in the test files that it runs, by path."""


class ActionEvidence(Struct, frozen=True, kw_only=True):
    """The lines of an action's contract, with what is known of each."""

    key: ActionKey
    checks: tuple[CheckEvidence, ...] = ()
    must_exist: tuple[str, ...] = ()
    must_not_exist: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The paths, folders and globs that the task declares."""
    observed: bool = False
    """Whether it is known which changed lines its checks executed."""


class ChangeEvidence(Struct, frozen=True, kw_only=True):
    """All that decides about the parts of a change."""

    actions: tuple[ActionEvidence, ...] = ()
    touching: Mapping[str, tuple[ActionKey, ...]] = {}
    """The actions whose commits changed a path; a path that is missing was changed by no action."""
    code: Mapping[str, frozenset[int]] = {}
    """The changed lines that can run and were watched for that, by path."""
    attention: Mapping[str, str] = {}
    """Why a file deserves attention whatever it serves, to be read after its path."""
    generated: frozenset[str] = frozenset()
    """Files that a tool writes."""


class IntentLine(Struct, frozen=True):
    """A line of a contract, or the absence of one."""

    kind: IntentKind
    action: ActionKey | None = None
    text: str = ""
    """The command, the glob, or the entry of the declared files."""

    @property
    def title(self) -> str:
        """The line in words."""
        match self.kind:
            case "none":
                return "Serves no line of a contract"
            case "generated":
                return "Written by a tool"
            case "files":
                return f"{self.action}: declares {self.text}"
            case "must_exist" | "must_not_exist":
                return f"{self.action}: {self.kind.replace('_', ' ')}: {self.text}"
            case _:
                return f"{self.action}: {self.text}"


class ReviewedHunk(Struct, frozen=True, kw_only=True):
    """A part of a changed file, or a whole file that changed without lines: moved, binary, another mode, unread."""

    file: PatchFile
    """Without its hunks."""
    lines: tuple[PatchLine, ...] = ()
    section: str = ""
    reason: str
    """Why it serves its line, or none, as a phrase."""
    also: tuple[str, ...] = ()
    """The other lines that it serves, in words."""
    executed: frozenset[int] = frozenset()
    """Its lines that a check executed, by their numbers after the change."""
    can_run: frozenset[int] = frozenset()
    """Its changed lines that can run."""
    attention: str = ""
    moved: str = ""
    """Where its lines were, or are now, as a phrase; empty if they were not moved."""

    @property
    def first(self) -> int:
        """The number of its first line after the change, or before it if there is none; 0 without lines."""
        return next((line.new or line.old for line in self.lines if line.sign != " "), 0)


class IntentGroup(Struct, frozen=True):
    """The parts of a change that serve one line."""

    line: IntentLine
    hunks: tuple[ReviewedHunk, ...]
    """Files that deserve attention first, then by path and line."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of files, added lines and deleted lines."""
        signs = [line.sign for hunk in self.hunks for line in hunk.lines]
        return len({hunk.file.path for hunk in self.hunks}), signs.count("+"), signs.count("-")


def group_by_intent(files: Sequence[PatchFile], evidence: ChangeEvidence) -> tuple[IntentGroup, ...]:
    """Return the groups, what serves no line first, what tools write last, between them in the order of the contracts.

    Each changed line, and each file without lines, is in exactly one group.
    """
    judge = _IntentJudge(evidence)
    found: dict[IntentLine, list[ReviewedHunk]] = {}
    for file in files:
        bare = structs.replace(file, hunks=())
        parts = [part for hunk in file.hunks for part in _parts_of(hunk)] or [PatchHunk(())]
        lines = [judge.line_of(bare, part) for part in parts]
        for line, part in _join_parts(parts, lines):
            found.setdefault(line, []).append(judge.reviewed(bare, part, line))
    order = {line: at for at, line in enumerate(judge.lines())}
    placed = _with_moves({line: tuple(hunks) for line, hunks in found.items()})
    groups = [
        IntentGroup(line, tuple(sorted(hunks, key=lambda hunk: (not hunk.attention, hunk.file.path, hunk.first))))
        for line, hunks in placed.items()
    ]
    return tuple(sorted(groups, key=lambda group: order[group.line]))


def _parts_of(hunk: PatchHunk) -> Iterator[PatchHunk]:
    """Yield the parts of a hunk: each run of changed lines, and each block of added code that begins at the margin."""
    starts, changed, gap = [0], False, 0
    for at, line in enumerate(hunk.lines):
        if line.sign == " ":
            gap += 1
            continue
        if changed and gap > 1:
            starts.append(at - gap // 2)
        elif changed and line.sign == hunk.lines[at - 1].sign == "+" and not hunk.lines[at - 1].text.strip():
            starts += [at] if line.text[:1] not in " \t})]\r#" else []
        changed, gap = True, 0
    for start, end in zip(starts, [*starts[1:], len(hunk.lines)], strict=True):
        yield PatchHunk(hunk.lines[start:end], hunk.section)


def _join_parts(parts: Sequence[PatchHunk], lines: Sequence[IntentLine]) -> Iterator[tuple[IntentLine, PatchHunk]]:
    """Yield the parts, adjacent ones with the same line as one."""
    held: tuple[IntentLine, PatchHunk] | None = None
    for line, part in zip(lines, parts, strict=True):
        if held is not None and held[0] == line and _follows_directly(held[1], part):
            held = (line, PatchHunk((*held[1].lines, *part.lines), held[1].section))
            continue
        if held is not None:
            yield held
        held = (line, part)
    if held is not None:
        yield held


def _follows_directly(one: PatchHunk, other: PatchHunk) -> bool:
    ends = [max(numbers, default=0) for numbers in zip(*((line.old, line.new) for line in one.lines), strict=True)]
    starts = [
        min((number for number in numbers if number), default=0)
        for numbers in zip(*((line.old, line.new) for line in other.lines), strict=True)
    ]
    return any(start and end and start == end + 1 for end, start in zip(ends, starts, strict=True))


class _Served(Struct, frozen=True):
    line: IntentLine
    reason: str


NONE = IntentLine("none")
GENERATED = IntentLine("generated")


class _IntentJudge:
    """Tells which lines a part of a change serves."""

    def __init__(self, evidence: ChangeEvidence) -> None:
        self._evidence = evidence
        self._actions = {action.key: action for action in evidence.actions}
        reach = {
            (action.key, check.name): sum(map(len, check.executed.values()))
            for action in evidence.actions
            for check in action.checks
        }
        self._checks = {
            # The check that executes the least of the change says most about the lines that it executes.
            action.key: sorted(action.checks, key=lambda check: reach[action.key, check.name])
            for action in evidence.actions
        }

    def lines(self) -> Iterator[IntentLine]:
        """Yield all lines in reading order."""
        yield NONE
        for action in self._evidence.actions:
            yield from (IntentLine("check", action.key, check.name) for check in action.checks)
            yield from (IntentLine("must_exist", action.key, glob) for glob in action.must_exist)
            yield from (IntentLine("must_not_exist", action.key, glob) for glob in action.must_not_exist)
            yield from (IntentLine("files", action.key, entry) for entry in action.files)
        yield GENERATED

    def line_of(self, file: PatchFile, part: PatchHunk) -> IntentLine:
        """Return the line that a part serves first of all."""
        return next((served.line for served in self._served_lines(file, part)), NONE)

    def reviewed(self, file: PatchFile, part: PatchHunk, line: IntentLine) -> ReviewedHunk:
        """Return a part with the reason for its line, and the others that it serves."""
        served = {each.line: each.reason for each in reversed(tuple(self._served_lines(file, part)))}
        added = _added_numbers(part)
        ran = frozenset[int]().union(
            *(check.executed.get(file.path, ()) for action in self._touching_actions(file) for check in action.checks)
        )
        return ReviewedHunk(
            file=file,
            lines=part.lines,
            section=part.section,
            reason=served.get(line) or self._why_none(file, part),
            also=tuple(dict.fromkeys(each.title for each in reversed(served) if each != line and each.kind != "files")),
            executed=ran & added,
            can_run=self._can_run(file.path) & added,
            attention=self._evidence.attention.get(file.path, ""),
        )

    def _touching_actions(self, file: PatchFile) -> list[ActionEvidence]:
        keys = (*self._evidence.touching.get(file.path, ()), *self._evidence.touching.get(file.former, ()))
        return [self._actions[key] for key in dict.fromkeys(keys) if key in self._actions]

    def _can_run(self, path: str) -> frozenset[int]:
        return self._evidence.code.get(path, frozenset())

    def _served_lines(self, file: PatchFile, part: PatchHunk) -> Iterator[_Served]:
        if file.path in self._evidence.generated:
            yield _Served(GENERATED, "a tool computes it from other files")
            return
        actions = self._touching_actions(file)
        for action in actions:
            yield from self._by_execution(action, file, part)
        for action in actions:
            yield from (*_by_name(action, file), *_by_globs(action, file))
        if self._is_unexecuted(file, part):
            return
        for action in actions:
            yield from self._by_file(action, file, part)
        for action in actions:
            yield from _by_words(action, part)
        for action in actions:
            for entry in action.files:
                if is_specific(entry) and (covers(entry, file.path) or covers(entry, file.former)):
                    yield _Served(
                        IntentLine("files", action.key, entry), "the task declares it, and no check shows more"
                    )

    def _by_execution(self, action: ActionEvidence, file: PatchFile, part: PatchHunk) -> Iterator[_Served]:
        added, can_run = _added_numbers(part), len(self._can_run(file.path) & _added_numbers(part))
        for check in self._checks[action.key]:
            if ran := len(check.executed.get(file.path, frozenset()) & added):
                reason = f"the check executed {ran} of its {count_of(max(ran, can_run), 'line')} that can run"
                yield _Served(IntentLine("check", action.key, check.name), reason)

    def _is_unexecuted(self, file: PatchFile, part: PatchHunk) -> bool:
        return bool(self._can_run(file.path) & _added_numbers(part)) and any(
            each.observed for each in self._touching_actions(file)
        )

    def _by_file(self, action: ActionEvidence, file: PatchFile, part: PatchHunk) -> Iterator[_Served]:
        for check in self._checks[action.key]:
            if check.executed.get(file.path) and part.lines:
                what = (
                    "what is here runs when it is loaded, or not at all"
                    if _added_numbers(part)
                    else "this only deletes"
                )
                yield _Served(
                    IntentLine("check", action.key, check.name), f"the check runs other lines of the file; {what}"
                )

    def _why_none(self, file: PatchFile, part: PatchHunk) -> str:
        actions = self._touching_actions(file)
        if not actions:
            return "no action of this run changed it"
        if self._is_unexecuted(file, part):
            lines = count_of(len(self._can_run(file.path) & _added_numbers(part)), "line")
            return f"no check executed its {lines} that can run"
        if not any(action.checks or action.must_exist or action.must_not_exist for action in actions):
            return "its task has no contract, and does not declare the file"
        return "no check is known to reach it, and its task does not declare the file"


def _by_name(action: ActionEvidence, file: PatchFile) -> Iterator[_Served]:
    path = file.path
    for check in action.checks:
        line = IntentLine("check", action.key, check.name)
        named = [word.removeprefix("./").rstrip("/") for word in _COMMAND_PATH.findall(check.name)]
        if path in check.tests:
            yield _Served(line, "the check ran its tests")
        elif path in named or file.former in named:
            yield _Served(line, "the check names it")
        elif is_test(path) and runs_tests(check.name):
            folder = next((f" in {word}" for word in named if path.startswith(f"{word}/")), "")
            # A runner without paths runs all tests.
            if folder or not any(is_test(word) or "/" in word for word in named):
                yield _Served(line, f"the check runs the tests{folder}")


def _by_globs(action: ActionEvidence, file: PatchFile) -> Iterator[_Served]:
    for glob in action.must_exist if file.status in {"A", "R"} else ():
        if matches(glob, file.path):
            yield _Served(IntentLine("must_exist", action.key, glob), "the file had to exist")
    for glob in action.must_not_exist if file.status in {"D", "R"} else ():
        if matches(glob, file.former):
            yield _Served(IntentLine("must_not_exist", action.key, glob), "the file had to go")


def _by_words(action: ActionEvidence, part: PatchHunk) -> Iterator[_Served]:
    names = _defined_names(part)
    for check in action.checks:
        for path, words in check.words.items():
            if found := next((name for name in names if name in words), None):
                yield _Served(
                    IntentLine("check", action.key, check.name), f"{path}, which the check runs, names {found}"
                )
                break


def _defined_names(part: PatchHunk) -> list[str]:
    changed = [line.text for line in part.lines if line.sign != " "]
    texts = changed if any(_DEFINED.search(text) for text in changed) else [part.section]
    names = [next(filter(None, found)) for text in texts for found in _DEFINED.findall(text)]
    return [name for name in dict.fromkeys(names) if len(name) >= MIN_NAME and not name.startswith("__")]


def _added_numbers(part: PatchHunk) -> frozenset[int]:
    return frozenset(line.new for line in part.lines if line.sign == "+")


def _with_moves(groups: Mapping[IntentLine, tuple[ReviewedHunk, ...]]) -> Mapping[IntentLine, tuple[ReviewedHunk, ...]]:
    """Return the groups with a note at parts whose lines another part deletes or adds alike."""
    every = [hunk for hunks in groups.values() for hunk in hunks]
    gone, come = _texts_by_first_line(every, "-"), _texts_by_first_line(every, "+")

    def noted(hunk: ReviewedHunk) -> ReviewedHunk:
        for sign, others, words in (("+", gone, "moved from"), ("-", come, "moved to")):
            own, other = _text_of(hunk, sign), _text_of(hunk, "-" if sign == "+" else "+")
            if len(own) < MIN_MOVED or other:
                continue
            for text, place in others.get(own[0], ())[:MAX_MOVES]:
                starts = islice((at for at, line in enumerate(text) if line == own[0]), MAX_MOVES)
                if any(text[at : at + len(own)] == own for at in starts):
                    return structs.replace(hunk, moved=f"{words} {place}")
        return hunk

    return {line: tuple(map(noted, hunks)) for line, hunks in groups.items()}


def _text_of(hunk: ReviewedHunk, sign: str) -> tuple[str, ...]:
    return tuple(text for line in hunk.lines if line.sign == sign and (text := line.text.strip()))


def _texts_by_first_line(
    hunks: Sequence[ReviewedHunk], sign: str
) -> Mapping[str, Sequence[tuple[tuple[str, ...], str]]]:
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for hunk in hunks:
        text = _text_of(hunk, sign)
        if len(text) >= MIN_MOVED:
            path = hunk.file.former if sign == "-" else hunk.file.path
            for line in dict.fromkeys(text):
                found.setdefault(line, []).append((text, f"{path}:{hunk.first}"))
    return found
