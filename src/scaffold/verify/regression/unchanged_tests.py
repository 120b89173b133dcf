"""Tell what comes from changed support files and settings: tests that prove less, findings that are not new."""

import re
from collections.abc import Collection, Mapping

from msgspec import structs

from scaffold.core.proof.gates import PASSING_OUTCOMES, Gate, GateRun, TestFate
from scaffold.git import commits
from scaffold.host.contained_path import ContainedPath
from scaffold.verify.contract.check_runs import Tree, restore_tracked_files
from scaffold.verify.contract.vacuous_tests import NO_CODE
from scaffold.verify.environment.dependencies import read_text
from scaffold.verify.locate_tests import path_from_gate, path_of_test
from scaffold.verify.paths.conventions import PROSE_SUFFIXES
from scaffold.verify.paths.loaded_files import says_commands
from scaffold.verify.regression.base_tests import LaidRun, for_each
from scaffold.verify.regression.comparison import FAILING_OUTCOMES, lost_tests
from scaffold.verify.regression.selection.affected_tests import ChangeImpact
from scaffold.verify.regression.selection.test_selection import LANGUAGE_FAMILIES

STUBS = "pyi"
_FILE_NAME = re.compile(r"(?<!\S)\w[\w.]{0,99}(?!\S)")
_TARGET = re.compile(r"^([\w.-]+)\s*:", re.MULTILINE)
MAX_TASK_FILES = 20
MAX_TASK_CHARS = 20_000
CASE = "["
"""Separates the name of a test from the name of its case."""


def new_support_files(gate: Gate, change: ChangeImpact) -> tuple[str, ...]:
    """Return the new support files that existing tests may load or read: conftest.py, data.

    The guard knows what a new `__init__.py` may contain.
    """
    return tuple(
        path
        for path in sorted(change.added)
        if change.is_test(path)
        and not change.is_test_file(path)
        and path.rpartition("/")[2] != "__init__.py"
        and path_from_gate(gate, path) is not None
    )


def fates_without_support(before: GateRun, now: GateRun, laid: LaidRun, change: ChangeImpact) -> dict[str, TestFate]:
    """Return the tests that passed before, pass now or have other cases now, and fail with the base's files.

    The base's files are its helpers, data and conftest.py, on the work's code.
    """
    lost, kept = lost_tests(before, now), {test_of(name) for name in now.outcomes}

    def stands(name: str) -> bool:
        gave_way = CASE in name and name not in now.outcomes and test_of(name) in kept
        return name not in lost and (gave_way or now.outcomes.get(name) in PASSING_OUTCOMES)

    passed = (name for name, outcome in before.outcomes.items() if outcome in PASSING_OUTCOMES and stands(name))
    return {name: "changed" for name in passed if laid.outcome(before.gate, name, change.listed) in FAILING_OUTCOMES}


def replaced_cases(before: GateRun, now: GateRun, change: ChangeImpact) -> dict[str, TestFate]:
    """Return the cases of parametrised tests in unchanged files that other cases replaced.

    Such cases come from the code, so the change removed them. If no case of a test is known any more, its names vary
    between runs. Work that landed earlier may have removed cases, too; these are not reported.
    """
    helpers = (path for path in change.changed if change.is_test(path) and not change.is_test_file(path))
    if change.changed_earlier or any(path not in change.added for path in helpers):
        return {}
    kept = {test_of(name) for name in now.outcomes if name in before.outcomes}
    gone = {
        name
        for name, outcome in before.outcomes.items()
        if outcome in PASSING_OUTCOMES and CASE in name and name not in now.outcomes and test_of(name) in kept
    }
    return {
        name: "removed"
        for name in sorted(gone - lost_tests(before, now))
        if path_of_test(before.gate, name, change.listed) not in change.changed
    }


def test_of(name: str) -> str:
    """Return the name of a test without its case."""
    return name.partition(CASE)[0]


async def lay_base_code(tree: Tree, before: GateRun) -> frozenset[str]:
    """Check out all code of the baseline, keep the candidate's other changed files, and return the latter.

    Does nothing and returns none if only code and documentation changed since. The caller undoes it with
    `restore_tracked_files`.
    """
    changes = await commits.path_changes(tree.git, before.commit, tree.commit)
    others = frozenset(change.path for change in changes if not _is_code(change.path))
    if all(_suffix_of(path) in PROSE_SUFFIXES for path in others):
        return frozenset()
    await restore_tracked_files(tree)
    code = [change for change in changes if _is_code(change.path)]
    await for_each(tree, ("rm", "--force", "--quiet"), [change.path for change in code if change.kind == "A"])
    await for_each(tree, ("checkout", before.commit), [change.path for change in code if change.kind != "A"])
    return others


async def lay_unread_code(tree: Tree, words: str) -> None:
    """Make each file unreadable that does not say what commands do, with `words` in it and as names of new files.

    With the words of those files, too: a task may be what looks for something.
    """
    listed = await commits.listed_files(tree.git, tree.commit)
    tasks = sorted(path for path in listed if says_commands(path))[:MAX_TASK_FILES] if words else []
    said = "\n".join(read_text(tree.git.cwd / path)[:MAX_TASK_CHARS] for path in tasks)
    # A file with the name of a target would keep make from running it.
    targets = {*_TARGET.findall(said)}
    named = {word for word in _FILE_NAME.findall(words) if word not in targets and not (tree.git.cwd / word).exists()}
    words = f"{words} {said}"
    # On the same line, since a shell would execute another one.
    text = b" ".join([*NO_CODE.split(), *words.encode().split(), *words.replace("\\", "").encode().split()]) + b"\n"
    for path in {path for path in listed if not says_commands(path)} | named:
        ContainedPath(tree.git.cwd, path).write(text)


def with_findings_of(before: GateRun, settings: GateRun, changed: Collection[str]) -> GateRun:
    """Return the run at the base with the findings that the new settings report in the same code.

    Findings in the `changed` files, which were not restored, are the work's own.
    """
    if settings.problem:
        return before
    found = {
        name: outcome
        for name, outcome in settings.outcomes.items()
        if path_of_test(before.gate, name, changed) not in changed
    }
    counts: Mapping[str, int] = {
        name: max(before.counts.get(name, 1), settings.counts.get(name, 1) if name in found else 1)
        for name in {**before.outcomes, **found}
    }
    return structs.replace(before, outcomes={**before.outcomes, **found}, counts=counts)


def _is_code(path: str) -> bool:
    return _suffix_of(path) in LANGUAGE_FAMILIES or _suffix_of(path) == STUBS


def _suffix_of(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[2]
