"""Work out which tests a change affects, and which tests of the baseline must run again."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from scaffold.core.proof.gates import Gate, GateRun, TaggedTests
from scaffold.git import commits
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.gates.reports import go_runner
from scaffold.verify.locate_tests import files_with_tests, path_from_gate, path_from_top, path_of_test
from scaffold.verify.paths.conventions import is_test, is_test_file
from scaffold.verify.paths.declared_paths import is_declared_path
from scaffold.verify.regression.selection.mentions import (
    MOST_NAMES,
    changed_names,
    go_packages,
    importing,
    marked,
    mentioning,
    texts,
)
from scaffold.verify.regression.selection.test_selection import LANGUAGE_FAMILIES, PathIndex, Selection, select_tests

SELECTABLE_RUNNERS: Mapping[str, str] = {
    **dict.fromkeys(("pytest", "unittest"), LANGUAGE_FAMILIES["py"]),
    **dict.fromkeys(("jest", "vitest"), LANGUAGE_FAMILIES["js"]),
    "go": LANGUAGE_FAMILIES["go"],
}
"""The runners that can run selected test files, with the language family of these files."""
SHARED_PROCESS_RUNNERS = frozenset({"pytest", "unittest"})
"""The runners that load all test files into one process, where one file can influence another."""


class ChangeImpact(Struct, frozen=True, kw_only=True):
    """A change as the gates see it."""

    paths: frozenset[str]
    """All paths of the repository with the change."""
    changed: tuple[str, ...]
    deleted: frozenset[str]
    added: frozenset[str]
    known: Mapping[str, int]
    """The number of tests that the baseline has in each file."""
    changed_since_baseline: frozenset[str]
    """The paths that differ from the baseline's commit, including changes that landed earlier."""
    selection: Selection
    """The tests for test gates to run."""
    found_tests: frozenset[str] = frozenset()
    """The files in which the baseline's runners found tests, whatever they are called, under both paths if renamed."""
    changed_earlier: frozenset[str] = frozenset()
    """The paths that changes which landed since the baseline altered."""
    former: Mapping[str, str] = {}
    """Current path to path at the baseline's commit, for renamed files."""

    def is_test(self, path: str) -> bool:
        """Return True if the path is a test or test data, by its name or because a runner found tests in it."""
        return is_test(path) or path in self.found_tests

    def is_test_file(self, path: str) -> bool:
        """Return True if a runner may find tests in the file, or found some."""
        return is_test_file(path) or path in self.found_tests

    @property
    def alters_tests(self) -> bool:
        """True if tests of the baseline, or their data, changed."""
        return any(self.is_test(path) for path in self.changed_since_baseline - self.added)

    @property
    def listed(self) -> frozenset[str]:
        """All files that exist now or existed at the baseline."""
        return self.paths | self.changed_since_baseline

    def skip_reason(self, gate: Gate) -> str:
        """Return the reason why a gate need not run for the change; empty if it must run."""
        if not gate.folder:
            return ""
        if not any(path.startswith(f"{gate.folder}/") for path in self.paths):
            return f"The folder {gate.folder} no longer exists."
        inside_changed = any(path_from_gate(gate, path) is not None for path in self.changed)
        if inside_changed or self.selection.run_all_reason or self.selected_files(gate):
            return ""
        return f"The change does not affect {gate.folder}."

    def selected_files(self, gate: Gate) -> tuple[str, ...]:
        """Return the test files to run, relative to the gate's folder; empty means all.

        Leaves out unchanged files without tests in the baseline: they are not part of the suite.
        """
        if gate.kind != "test" or gate.runner not in SELECTABLE_RUNNERS or self.selection.run_all_reason:
            return ()
        if gate.runner == "go" and not go_runner.can_select_packages(gate.command):
            return ()
        candidates = (
            path
            for path in self.selection.files
            if LANGUAGE_FAMILIES.get(_suffix_of(path)) == SELECTABLE_RUNNERS[gate.runner]
        )
        inside = (
            path_from_gate(gate, path)
            for path in candidates
            if path in self.known or path in self.changed_since_baseline
        )
        return tuple(path for path in inside if path is not None)

    def files_to_isolate(self, gate: Gate, only: Sequence[str]) -> tuple[str, ...]:
        """Return the old test files to run again without the new ones, which ran in the same process.

        `only` are the files that ran, empty for all. Returns none if no new test file ran, or if the runner isolates
        files anyway.
        """
        if gate.runner not in SHARED_PROCESS_RUNNERS:
            return ()
        ran = only or tuple(inside for path in sorted(self.paths) if (inside := path_from_gate(gate, path)) is not None)
        tests = [path for path in ran if is_test_file(path)]
        old = tuple(path for path in tests if path_from_top(gate, path) in self.known)
        # Equal numbers mean that no new file ran, so there is nothing to isolate from.
        return old if len(old) < len(tests) else ()

    def expected(self, gate: Gate, only: Sequence[str]) -> Callable[[str], bool]:
        """Return a predicate: must a test that passed before run now? `only` are the files that run, empty for all.

        A test need not run if earlier changes had already deleted its file.
        """
        selected, listed = frozenset(only), self.listed

        def expected(name: str) -> bool:
            path = path_of_test(gate, name, listed)
            if path is None:
                return not selected
            if gate.runner == "go":
                ran = (path_from_top(gate, each) for each in selected)
                return not selected or any(_tests_of(path, each) for each in (*self.deleted, *ran))
            if path in self.paths:
                return not selected or path_from_gate(gate, path) in selected
            # This change answers for files that it deleted; other deletions were judged when they landed.
            return path in self.deleted

        return expected


async def analyze_impact(
    tree: Tree,
    before: Sequence[GateRun],
    since: Sequence[str],
    *,
    focused: bool,
    tagged: Sequence[TaggedTests] = (),
    former: Mapping[str, str] = {},
    earlier: Sequence[str] = (),
) -> ChangeImpact:
    """Return the impact of the change in `tree` on the gates; if not `focused`, all tests are selected.

    `before` are the baseline's runs, `since` the paths that differ from their commit, `former` the paths that renamed
    files had there, `earlier` the paths that differ between that commit and the base of `tree`. `tagged` tests are
    selected in addition.
    """
    changes = await commits.path_changes(tree.git, tree.base, tree.commit)
    paths = frozenset(await commits.listed_paths(tree.git, tree.commit))
    known = _baseline_counts(before, paths)
    changed = tuple(change.path for change in changes)
    found = files_with_tests(before, paths.union(changed))
    whole = Selection(run_all_reason="all tests were requested")
    return ChangeImpact(
        paths=paths,
        changed=changed,
        deleted=frozenset(change.path for change in changes if change.kind == "D"),
        added=frozenset(change.path for change in changes if change.kind == "A"),
        known=known,
        changed_since_baseline=frozenset((*since, *changed)),
        selection=await _select_affected(tree, changed, PathIndex(paths), known, tagged) if focused else whole,
        former=former,
        found_tests=found.union(former[path] for path in found if path in former),
        changed_earlier=frozenset(earlier),
    )


def _baseline_counts(before: Sequence[GateRun], paths: frozenset[str]) -> Mapping[str, int]:
    """Return the number of tests in each file of the baseline; a Go package's tests are divided among its files."""
    found: Counter[str] = Counter()
    for run in (run for run in before if run.gate.kind == "test"):
        test_paths = Counter(
            place for name in run.outcomes if (place := path_of_test(run.gate, name, paths)) is not None
        )
        if run.gate.runner == "go":
            # Go reports packages, not files.
            for folder, count in test_paths.items():
                files = [path for path in paths if _tests_of(folder, path)]
                found.update(dict.fromkeys(files, max(1, count // max(1, len(files)))))
        else:
            found.update(test_paths)
    return found


async def _select_affected(
    tree: Tree, changed: Sequence[str], index: PathIndex, known: Mapping[str, int], tagged: Sequence[TaggedTests]
) -> Selection:
    sources = [path for path in changed if _suffix_of(path) in LANGUAGE_FAMILIES and not is_test_file(path)]
    contents = await texts(tree.git, [(at, path) for path in sources for at in (tree.base, tree.commit)])
    names = frozenset[str]().union(
        *(changed_names(path, contents.get((tree.base, path)), contents.get((tree.commit, path))) for path in sources)
    )
    if len(names) > MOST_NAMES:
        return Selection(run_all_reason=f"{len(names)} exported names changed")
    callers = {*await mentioning(tree.git, names), *await _go_importers(tree, sources, index)}
    touched = [each for each in tagged if any(is_declared_path(path, (each.path,)) for path in changed)]
    by_tag = {each.path: [path for path in await marked(tree.git, each.tags) if is_test_file(path)] for each in touched}
    return select_tests(changed, index, callers=callers, tagged=by_tag, sizes=known)


async def _go_importers(tree: Tree, sources: Sequence[str], index: PathIndex) -> tuple[str, ...]:
    # The behaviour of a changed package may change while its exported names do not.
    if not any(path.endswith(".go") for path in sources):
        return ()
    manifests = [path for path in index.paths if path.rpartition("/")[2] == "go.mod"]
    contents = await texts(tree.git, [(tree.commit, path) for path in manifests])
    modules = {path.rpartition("/")[0]: text for (_, path), text in contents.items()}
    return await importing(tree.git, go_packages(sources, modules))


def _suffix_of(path: str) -> str:
    return path.rpartition(".")[2]


def _tests_of(folder: str, path: str) -> bool:
    return path.endswith("_test.go") and path.rpartition("/")[0] == folder
