"""A change by intent, with the evidence for it: read from git and the store, for every interface."""

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from scaffold.core.ids import ActionKey, Commit
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.proof.contract import CheckReach, Contract
from scaffold.git.client.command_line import Git
from scaffold.git.commits import PathChange, batch_contents, listed_paths, path_changes
from scaffold.git.patch import PatchFile, change_fingerprint, read_patch
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.run.task_list import own_changed_paths
from scaffold.store.database import Store
from scaffold.verify.contract.tamper_detection import runs_tests
from scaffold.verify.observation.changed_code import PYTHON, ExecutableLines, MarkedLines, executable_lines
from scaffold.verify.observation.node_coverage import SUFFIXES, code_lines
from scaffold.verify.paths.check_inputs import BaseLayout, check_input_reason
from scaffold.verify.paths.conventions import is_lock_file, is_test, is_test_file
from scaffold.verify.paths.manifest import changed_check_settings, has_settings
from scaffold.views.changes.intents import (
    ActionEvidence,
    ChangeEvidence,
    CheckEvidence,
    IntentGroup,
    ReviewedHunk,
    group_by_intent,
)
from scaffold.views.changes.shown_range import ShownRange

MAX_READ_LINES = 5_000
"""A file with more lines that others have changed since keeps no evidence of executed lines."""
MAX_TEST_FILES = 200
"""How many test files of a check are read for the names in them."""
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_GENERATED = re.compile(rb"@generated|(?i:code generated .*do not edit)")
HEAD_BYTES = 1_000
"""Where a tool writes that it has generated a file."""


class ChangedFile(Struct, frozen=True, kw_only=True):
    """A changed file in the list of all."""

    file: PatchFile
    """Without its hunks."""
    attention: str
    """Why it deserves attention whatever it serves, to be read after its path; empty for most."""
    actions: tuple[ActionKey, ...]
    """The actions whose commits changed it."""


class Contribution(Struct, frozen=True):
    """An action with the attempt that changed something, and the paths that it changed; None for all of the change."""

    action: Action
    attempt: Attempt
    paths: Collection[str] | None = None


class ReviewedChange(Struct, frozen=True, kw_only=True):
    """A change from `base` to `head`, by intent."""

    base: Commit
    head: Commit
    fingerprint: str
    """SHA-256 of the paths, modes and blobs before and after: what an approval is about."""
    groups: tuple[IntentGroup, ...]
    """What serves no line of a contract first."""
    files: tuple[ChangedFile, ...]
    """Those that deserve attention first, then by path."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of files, added lines and deleted lines."""
        files = [each.file for each in self.files]
        return len(files), sum(each.added for each in files), sum(each.deleted for each in files)


async def read_change(
    git: Git, store: Store, run: Run, contributions: Sequence[Contribution], ends: tuple[Commit, Commit]
) -> ReviewedChange:
    """Return the change between two commits by the intents of the actions that contributed to it.

    A list of tasks in which only marks changed is left out, as each landing marks its own.
    """
    base, head = ends
    shown = frozenset(await own_changed_paths(git, run.settings.landing.tracked_list, base, head))
    files = [each for each in await read_patch(git, base, head) if shown & {each.path, each.former}]
    texts = await _ContentReader.of(git, files, contributions, ends)
    evidence = ChangeEvidence(
        actions=tuple(_action_evidence(each, files, texts) for each in contributions),
        touching=_actions_by_path(files, contributions),
        code=_watched_code(files, contributions, texts),
        attention=await _attention_by_path(git, store, run, ends, texts),
        generated=frozenset(each.path for each in files if _is_generated(each, texts)),
    )
    changed = [
        ChangedFile(
            file=structs.replace(each, hunks=()),
            attention=evidence.attention.get(each.path, ""),
            actions=tuple(evidence.touching.get(each.path, ())),
        )
        for each in files
    ]
    return ReviewedChange(
        base=base,
        head=head,
        fingerprint=await change_fingerprint(git, base, head),
        groups=group_by_intent(files, evidence),
        files=tuple(sorted(changed, key=lambda each: (not each.attention, each.file.path))),
    )


async def read_shown_change(git: Git, store: Store, run: Run, shown: ShownRange) -> ReviewedChange | None:
    """Return the change of an action, landed or not; None if it has changed nothing."""
    if shown.attempt is None or shown.base is None or shown.commit is None:
        return None
    action = store.actions.get(shown.attempt.action_id)
    work = [Contribution(action, shown.attempt)] if action else []
    return await read_change(git, store, run, work, (shown.base, shown.commit))


def cleaned_change(change: ReviewedChange, clean: Callable[[str], str]) -> ReviewedChange:
    """Return the change without secrets, also those of several lines; `clean` removes them from a text."""
    groups = [
        IntentGroup(group.line, tuple(_cleaned_hunk(hunk, clean) for hunk in group.hunks)) for group in change.groups
    ]
    return structs.replace(change, groups=tuple(groups))


def _cleaned_hunk(hunk: ReviewedHunk, clean: Callable[[str], str]) -> ReviewedHunk:
    text = "\n".join(line.text for line in hunk.lines)
    cleaned = clean(text)
    if cleaned == text:
        return hunk
    # A secret of several lines becomes one: those after it are gone.
    texts = cleaned.split("\n")
    texts += [""] * (len(hunk.lines) - len(texts))
    lines = [structs.replace(line, text=now) for line, now in zip(hunk.lines, texts, strict=False)]
    return structs.replace(hunk, lines=tuple(lines))


def _actions_by_path(
    files: Sequence[PatchFile], contributions: Sequence[Contribution]
) -> Mapping[str, tuple[ActionKey, ...]]:
    return {
        file.path: tuple(
            dict.fromkeys(
                each.action.key
                for each in contributions
                if each.paths is None or file.path in each.paths or file.former in each.paths
            )
        )
        for file in files
    }


class _ContentReader:
    """The contents that decide about a change, read in one call of git."""

    def __init__(self, base: Commit, head: Commit, known: Mapping[str, bytes | None]) -> None:
        self._base = base
        self._head = head
        self._known = known

    @classmethod
    async def of(
        cls, git: Git, files: Sequence[PatchFile], contributions: Sequence[Contribution], ends: tuple[Commit, Commit]
    ) -> "_ContentReader":
        """Read the changed code, manifests and tests at both ends, and what was verified."""
        base, head = ends
        names = list[str]()
        for file in files:
            if not (file.is_submodule or file.binary or file.unread):
                names += [f"{base}:{file.former}", f"{head}:{file.path}"]
        for each in contributions:
            for reach in _reach_of_checks(each):
                names += [f"{commit}:{path}" for path in reach.lines for commit in _verified_commits(each)]
            names += [f"{head}:{path}" for check in _checked_commands(each) for path in _tests_of(check, each, files)]
        wanted = tuple(dict.fromkeys(names))
        contents = await batch_contents(git, wanted) if wanted else ()
        return cls(base, head, dict(zip(wanted, contents, strict=True)))

    def before(self, path: str) -> bytes:
        """Return the content before the change; empty if there is none."""
        return self._known.get(f"{self._base}:{path}") or b""

    def after(self, path: str) -> bytes:
        """Return the content after the change; empty if there is none."""
        return self._known.get(f"{self._head}:{path}") or b""

    def verified(self, each: Contribution, path: str) -> bytes | None:
        """Return the content that was verified; None if the repository no longer has it."""
        found = (self._known.get(f"{commit}:{path}") for commit in _verified_commits(each))
        return next((content for content in found if content is not None), None)


def _verified_commits(each: Contribution) -> Sequence[Commit]:
    # What has landed stays, if the commit that was verified is gone.
    verification = each.attempt.verification
    commits = (verification.commit if verification else None, each.attempt.head_sha)
    return [commit for commit in commits if commit]


def _reach_of_checks(each: Contribution) -> Sequence[CheckReach]:
    return each.attempt.verification.reach if each.attempt.verification else ()


def _checked_commands(each: Contribution) -> Sequence[str]:
    contract = each.action.contract or Contract()
    return tuple(
        dict.fromkeys(
            [*(check.command for check in contract.commands), *(found.check for found in _reach_of_checks(each))]
        )
    )


def _tests_of(command: str, each: Contribution, files: Sequence[PatchFile]) -> Sequence[str]:
    """Return the test files that a check runs, as far as that is known."""
    if not runs_tests(command):
        return ()
    observed = next((found.tests for found in _reach_of_checks(each) if found.check == command), ())
    changed = [file.path for file in files if file.status != "D" and is_test_file(file.path)]
    named = [word for word in command.split() if is_test_file(word)]
    return tuple(dict.fromkeys([*named, *observed, *(changed if not named else ())]))[:MAX_TEST_FILES]


def _action_evidence(each: Contribution, files: Sequence[PatchFile], texts: _ContentReader) -> ActionEvidence:
    contract, verification = each.action.contract or Contract(), each.attempt.verification
    reach = {found.check: found for found in _reach_of_checks(each)}
    return ActionEvidence(
        key=each.action.key,
        checks=tuple(
            _check_evidence(command, reach.get(command), each, files, texts) for command in _checked_commands(each)
        ),
        must_exist=contract.must_exist,
        must_not_exist=contract.must_not_exist,
        files=each.action.files,
        observed=verification is not None and verification.executed_lines is not None,
    )


def _check_evidence(
    command: str, reach: CheckReach | None, each: Contribution, files: Sequence[PatchFile], texts: _ContentReader
) -> CheckEvidence:
    names = {file.former: file.path for file in files} | {file.path: file.path for file in files}
    executed = {}
    for path, ranges in (reach.lines if reach else {}).items():
        numbers = {number for first, last in ranges for number in range(first, last + 1)}
        now = names.get(path, path)
        executed[now] = moved_numbers(numbers, texts.verified(each, path), texts.after(now))
    words = {
        path: frozenset(_WORD.findall(_decode_text(texts.after(path)))) for path in _tests_of(command, each, files)
    }
    return CheckEvidence(name=command, executed=executed, tests=frozenset(reach.tests if reach else ()), words=words)


def moved_numbers(numbers: Collection[int], before: bytes | None, after: bytes) -> frozenset[int]:
    """Return the numbers of the same lines in a newer version; lines that were changed since have none."""
    if before is None:
        return frozenset()
    if before == after:
        return frozenset(numbers)
    old, new = before.split(b"\n"), after.split(b"\n")
    if max(len(old), len(new)) > MAX_READ_LINES:
        return frozenset()
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return frozenset(
        block.b + number - block.a for block in blocks for number in numbers if block.a < number <= block.a + block.size
    )


def _watched_code(
    files: Sequence[PatchFile], contributions: Sequence[Contribution], texts: _ContentReader
) -> Mapping[str, frozenset[int]]:
    """Return the changed lines whose execution checks were watched for.

    As in the checks: lines that run when a file is loaded only where no function has changed.
    """
    seen = frozenset(path for each in contributions for reach in _reach_of_checks(each) for path in reach.lines)
    found = {each.path: _lines_that_run(each, texts.after(each.path), seen) for each in files}
    code = {path: lines for path, lines in found.items() if lines is not None}
    inside = any(lines.in_functions for lines in code.values())
    return {
        path: frozenset(
            number for group in (lines.in_functions if inside else lines.at_import) for number in group.lines
        )
        for path, lines in code.items()
    }


def _lines_that_run(file: PatchFile, content: bytes, seen: Collection[str]) -> ExecutableLines | None:
    added = [line.new for hunk in file.hunks for line in hunk.lines if line.sign == "+"]
    if not added or is_test(file.path):
        return None
    if file.path.endswith(PYTHON):
        return executable_lines(content, added)
    # Node tells only of files that it loaded.
    if file.path.endswith(SUFFIXES) and file.path in seen:
        lines = code_lines(_decode_text(content), added)
        return ExecutableLines(in_functions=tuple(MarkedLines(number, (number,)) for number in lines))
    return None


def _is_generated(file: PatchFile, texts: _ContentReader) -> bool:
    if is_lock_file(file.path):
        return True
    # A mark that the change itself adds is no reason to fold it.
    before = texts.before(file.former)[:HEAD_BYTES]
    return bool(_GENERATED.search(before)) and bool(_GENERATED.search(texts.after(file.path)[:HEAD_BYTES]))


async def _attention_by_path(
    git: Git, store: Store, run: Run, ends: tuple[Commit, Commit], texts: _ContentReader
) -> Mapping[str, str]:
    """Return why files deserve attention whatever they serve: they decide about checks, or are protected."""
    changes = await path_changes(git, *ends)
    layout = BaseLayout(await listed_paths(git, ends[0]), _judging_commands(store, run))
    areas = ProtectedAreas.with_added(run.settings.permissions.areas)
    found = ((change.path, "; ".join(_attention_to(change, layout, areas, texts))) for change in changes)
    return {path: why for path, why in found if why}


def _attention_to(
    change: PathChange, layout: BaseLayout, areas: ProtectedAreas, texts: _ContentReader
) -> Iterator[str]:
    if why := check_input_reason(change, layout):
        yield why
    elif has_settings(change.path) and not change.is_gitlink:
        parts = changed_check_settings(change.path, texts.before(change.path), texts.after(change.path))
        if parts:
            yield f"has settings that determine check results: {', '.join(parts[:3])}"
    if area := areas.area_of(change.path):
        yield f"is in a protected area: {area}"


def _judging_commands(store: Store, run: Run) -> tuple[str, ...]:
    baseline = store.baselines.for_run(run.id)
    gates = [each.gate.command for each in baseline.runs] if baseline else []
    contracts = [action.contract for action in store.actions.for_run(run.id) if action.contract]
    return tuple(dict.fromkeys([*gates, *(check.command for each in contracts for check in each.commands)]))


def _decode_text(content: bytes) -> str:
    return content.decode(errors="replace")
