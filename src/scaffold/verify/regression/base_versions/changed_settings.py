"""Tell findings that come from changed settings of a linter or type checker from those that come from changed code."""

from collections.abc import Collection, Mapping

from msgspec import structs

from scaffold.core.proof.gates import GateRun
from scaffold.git import commits
from scaffold.verify.contract.check_runs import Tree, restore_tracked_files
from scaffold.verify.locate_tests import path_of_test
from scaffold.verify.paths.conventions import PROSE_SUFFIXES
from scaffold.verify.regression.base_versions.base_tests import for_each
from scaffold.verify.regression.selection.test_selection import LANGUAGE_FAMILIES

STUBS = "pyi"


async def lay_base_code(tree: Tree, before: GateRun) -> frozenset[str]:
    """Make all code what it was at the baseline, beside the other changed files of the candidate, and return these.

    Does nothing and returns none if nothing but code and documentation changed since. The caller undoes it with
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


def with_findings_of(before: GateRun, settings: GateRun, changed: Collection[str]) -> GateRun:
    """Return the run at the base with the findings that the new settings have in the same code.

    Those in the `changed` files, which were not laid back, are the work's own.
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
