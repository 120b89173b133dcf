"""Tell findings that come from changed settings of a linter or type checker from those that come from changed code."""

from collections.abc import Mapping

from msgspec import structs

from scaffold.core.gates import GateRun
from scaffold.git import commits
from scaffold.verify.contract.checks import Tree, restore_tracked_files
from scaffold.verify.paths.conventions import PROSE_SUFFIXES
from scaffold.verify.regression.base_tests import for_each
from scaffold.verify.regression.selection import LANGUAGE_FAMILIES

STUBS = "pyi"


async def lay_base_code(tree: Tree, before: GateRun) -> bool:
    """Make all code what it was at the baseline, beside the other files of the candidate.

    Does nothing and returns False if nothing but code and documentation changed since. The caller undoes it with
    `restore_tracked_files`.
    """
    changes = await commits.path_changes(tree.git, before.commit, tree.commit)
    if not any(not _is_code(change.path) and _suffix(change.path) not in PROSE_SUFFIXES for change in changes):
        return False
    await restore_tracked_files(tree)
    code = [change for change in changes if _is_code(change.path)]
    await for_each(tree, ("rm", "--force", "--quiet"), [change.path for change in code if change.kind == "A"])
    await for_each(tree, ("checkout", before.commit), [change.path for change in code if change.kind != "A"])
    return True


def with_findings_of(before: GateRun, settings: GateRun) -> GateRun:
    """Return the run at the base with the findings that the new settings have in the same code."""
    if settings.problem:
        return before
    counts: Mapping[str, int] = {
        name: max(before.counts.get(name, 1), settings.counts.get(name, 1))
        for name in {**before.outcomes, **settings.outcomes}
    }
    return structs.replace(before, outcomes={**before.outcomes, **settings.outcomes}, counts=counts)


def _is_code(path: str) -> bool:
    return _suffix(path) in LANGUAGE_FAMILIES or _suffix(path) == STUBS


def _suffix(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[2]
