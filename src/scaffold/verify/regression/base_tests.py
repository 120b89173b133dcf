"""Run the base's tests on a candidate that changed or removed them, and judge the change by the result.

A test that is gone or has other expectations may be honest work or hide a failure. Its base version tells which: it
passes, it cannot resolve a name that the change removed, or it fails.
"""

import ast
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.proof.contract import Doubt, DoubtCode
from scaffold.core.proof.gates import EXIT_OUTCOME, PASSING_OUTCOMES, Gate, GateResult, GateRun, TestFate, TestOutcome
from scaffold.git import commits
from scaffold.verify.contract.check_runs import Tree, restore_tracked_files
from scaffold.verify.gates.reports.node_runner import ANY_FILE
from scaffold.verify.gates.reports.runner_result import StandInsOrder, UnresolvedName
from scaffold.verify.locate_tests import is_test_function, name_in_file, path_from_gate, path_of_test
from scaffold.verify.paths.declared_paths import is_declared_path
from scaffold.verify.regression.comparison import FAILING_OUTCOMES, MAX_TESTS, lost_tests
from scaffold.verify.regression.selection.affected_tests import ChangeImpact
from scaffold.verify.regression.selection.mentions import SHORTEST_NAME, mentioning, texts
from scaffold.verify.regression.selection.test_selection import LANGUAGE_FAMILIES

BY_FILE = frozenset({"pytest", "unittest", "go", "jest", "vitest"})
"""The runners that can run selected test files; all others run everything."""
UNCACHED: Mapping[str, str] = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": os.devnull}
"""Disable bytecode, which may belong to another version with the same size and time in seconds."""
MAX_NAMED = 3
DOUBTS: Mapping[TestFate, tuple[DoubtCode, str]] = {
    "lost": ("tests_lost", "gone that would fail"),
    "removed": ("tests_removed", "removed with what they tested"),
    "changed": ("tests_changed", "changed that would fail as they were"),
}


class LaidRun(Struct, frozen=True, kw_only=True):
    """The results of the base's tests on the candidate's code, by the names that tests have now."""

    run: GateRun
    unresolved: Mapping[str, UnresolvedName] = {}
    """The names that the change removed, by the test, or the file, that could not resolve them."""

    def outcome(self, gate: Gate, name: str, files: Collection[str]) -> TestOutcome | None:
        """Return the outcome of a test, or of its file if that could not be loaded; None if it was not there."""
        found = self.run.outcomes.get(name)
        return found if found is not None else self.run.outcomes.get(_file_key(gate, name, files))

    def lacks_a_name(self, gate: Gate, name: str, files: Collection[str]) -> bool:
        """Return True if a test, or its whole file, failed because of a name that the change removed."""
        return name in self.unresolved or _file_key(gate, name, files) in self.unresolved


def changed_base_tests(gate: Gate, change: ChangeImpact, may_change: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the test files, helpers and data of the base that a change altered, of those that it `may_change`."""
    return tuple(
        path
        for path in change.changed
        if path not in change.added
        and change.is_test(path)
        and may_change(path)
        and path_from_gate(gate, path) is not None
    )


def selection(gate: Gate, altered: Sequence[str], otherwise: Sequence[str], change: ChangeImpact) -> tuple[str, ...]:
    """Return the test files of the base to run; empty for all.

    `otherwise` are the files to run if helpers or data are among those `altered`, since any test may use them.
    """
    if gate.runner not in BY_FILE:
        return ()
    if all(map(change.is_test_file, altered)):
        return tuple(inside for path in altered if (inside := path_from_gate(gate, path)) is not None)
    own = [
        inside for path in altered if change.is_test_file(path) and (inside := path_from_gate(gate, path)) is not None
    ]
    return tuple(dict.fromkeys((*own, *otherwise))) if otherwise else ()


async def lay_base_tests(tree: Tree, change: ChangeImpact) -> Tree:
    """Check out the base's tests beside the candidate's code; return the tree to run them in.

    The caller undoes it with `restore_tracked_files`.
    """
    await restore_tracked_files(tree)
    tests = [path for path in change.changed if change.is_test(path)]
    await for_each(tree, ("rm", "--force", "--quiet"), [path for path in tests if path in change.added])
    await for_each(tree, ("checkout", tree.base), [path for path in tests if path not in change.added])
    return structs.replace(tree, commit=tree.base, environ={**tree.environ, **UNCACHED})


async def stand_ins_order(tree: Tree, change: ChangeImpact) -> StandInsOrder:
    """Return the order to run the base's tests in a tree, with the modules that the change removed."""
    paths = await commits.listed_paths(tree.git, tree.base)
    tests = tuple(path for path in paths if path.endswith(".py") and change.is_test(path))
    gone = {name for path in change.deleted if not change.is_test(path) for name in module_names(path)}
    return StandInsOrder(top=str(tree.git.cwd), tests=tests, removed=tuple(sorted(gone)))


def module_names(path: str) -> Iterator[str]:
    """Yield the dotted names under which a Python file may be imported, with and without its outer folders."""
    if path.endswith(".py"):
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
        yield from (".".join(parts[start:]) for start in range(len(parts)))


async def confirmed(
    unresolved: Mapping[str, UnresolvedName], gate: Gate, tree: Tree, change: ChangeImpact
) -> dict[str, UnresolvedName]:
    """Return the names that the change removed, and did not define anew elsewhere; the tree has the candidate's code.

    A class must have had the name at the base. If only the compiler or the engine reported the name, no source file may
    contain it any more.
    """
    if gate.runner not in {"pytest", "unittest"}:
        return {test: each for test, each in unresolved.items() if await _is_gone(each.name, tree, change)}
    moved = await _newly_bound(tree, change) if unresolved else frozenset()
    unresolved = {test: each for test, each in unresolved.items() if each.name.rpartition(".")[2] not in moved}
    paths = sorted({file for each in unresolved.values() for file, _ in each.owners})
    texts = {path: await commits.file_contents(tree.git, tree.base, path) or b"" for path in paths}

    def had_it(each: UnresolvedName) -> bool:
        attribute = each.name.rpartition(".")[2]
        return any(attribute in class_attributes(texts[file], owner) for file, owner in each.owners)

    return {test: each for test, each in unresolved.items() if not each.owners or had_it(each)}


async def _is_gone(name: str, tree: Tree, change: ChangeImpact) -> bool:
    if len(name) < SHORTEST_NAME:
        return False
    paths = await mentioning(tree.git, [name])
    return all(change.is_test(path) or path.rpartition(".")[2] not in LANGUAGE_FAMILIES for path in paths)


async def _newly_bound(tree: Tree, change: ChangeImpact) -> frozenset[str]:
    sources = [path for path in change.changed if path.endswith(".py") and not change.is_test(path)]
    held = await texts(tree.git, [(at, path) for path in sources for at in (tree.commit, tree.base)])
    bound = {key: bound_names(text) for key, text in held.items()}
    none = frozenset[str]()
    new = (bound.get((tree.commit, path), none) - bound.get((tree.base, path), none) for path in sources)
    return none.union(*new)


def bound_names(source: str | bytes) -> frozenset[str]:
    """Return all names that a Python file binds, at any depth; empty if it cannot be parsed."""
    try:
        return frozenset(_bound_names(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()


def class_attributes(source: bytes, qualified_name: str) -> frozenset[str]:
    """Return the names that a class of a Python file defines, in its body or on `self`; empty without the class."""
    try:
        body: Sequence[ast.stmt] = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    found: ast.ClassDef | None = None
    for part in qualified_name.split("."):
        found = next((each for each in body if isinstance(each, ast.ClassDef) and each.name == part), None)
        if found is None:
            return frozenset()
        body = found.body
    return frozenset(_bound_names(found)) if found else frozenset()


def _bound_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.alias(name=name, asname=asname):
                yield asname or name.partition(".")[0]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name


def fates_of_tests(
    before: GateRun,
    now: GateRun,
    laid: LaidRun,
    *,
    altered: Collection[str],
    named: Collection[str] = (),
    change: ChangeImpact,
) -> dict[str, TestFate]:
    """Return the fate of the base's tests in the `altered` files, without tests that simply pass as before.

    Those in files that a task only `named` are lost if they expect something else: nobody has said that they should.

    Tests that did not pass before cannot be lost. A test that the base's version of its file no longer had was
    removed by work that landed earlier, and judged then.
    """
    gate, listed = before.gate, change.listed
    gone = lost_tests(before, now)
    known = frozenset(before.outcomes)
    new = (
        name for name, outcome in now.outcomes.items() if outcome in PASSING_OUTCOMES and name not in before.outcomes
    )
    newly_passing = frozenset(name_in_file(now.gate, name) for name in new)

    def is_in(paths: Collection[str], name: str) -> bool:
        place = path_of_test(gate, name, listed)
        if gate.runner == "go":
            return any(path.rpartition("/")[0] == (place or "") for path in paths)
        return place is None or place in paths or change.former.get(place) in paths

    def fate(name: str) -> TestFate | None:
        outcome = laid.outcome(gate, name, listed)
        skipped = now.outcomes.get(name) == "skipped"
        if outcome in PASSING_OUTCOMES:
            return ("lost" if skipped else "moved") if name in gone else None
        kept = named and is_in(named, name) and now.outcomes.get(name) not in FAILING_OUTCOMES
        if name not in gone:
            return "lost" if kept else "changed"
        if outcome is None and laid.run.problem is None and _landed_change(gate, name, change):
            return None
        if laid.lacks_a_name(gate, name, listed):
            return "removed"
        return "changed" if name_in_file(gate, name) in newly_passing and not kept else "lost"

    passed = [name for name, outcome in before.outcomes.items() if outcome in PASSING_OUTCOMES and is_in(altered, name)]
    # Tests that landed earlier in this run are not in the baseline; they had to pass to land.
    later = [name for name in laid.run.outcomes if name not in known and name not in now.outcomes]
    found = {name: fate(name) for name in passed}
    found |= {name: _fate_of_later(gate, name, laid, listed) for name in later if is_in(altered, name)}
    return {name: each for name, each in sorted(found.items()) if each is not None}


def removed_earlier(before: GateRun, now: GateRun, *, altered: Collection[str], change: ChangeImpact) -> frozenset[str]:
    """Return the tests that earlier landings removed, from files that this change does not alter."""
    if not change.changed_earlier:
        return frozenset()
    places = {name: path_of_test(before.gate, name, change.listed) for name in lost_tests(before, now)}
    return frozenset(
        name
        for name, place in places.items()
        if name not in now.outcomes and place not in altered and _landed_change(before.gate, name, change)
    )


def checks_gone_with_sources(
    before: GateRun, now: GateRun, change: ChangeImpact, files: Sequence[str]
) -> Mapping[str, TestFate]:
    """Return the doctests, and results of plugins, that are gone from declared source files that changed.

    They are part of the source, so their base version cannot run on other code.
    """
    places = {name: path_of_test(before.gate, name, change.listed) for name in lost_tests(before, now)}
    return {
        name: "removed"
        for name, place in places.items()
        if place in change.changed
        and not change.is_test(place)
        and is_declared_path(place, files)
        and name not in now.outcomes
        and not is_test_function(before.gate, name)
    }


def _fate_of_later(gate: Gate, name: str, laid: LaidRun, listed: Collection[str]) -> TestFate | None:
    outcome = laid.run.outcomes[name]
    if outcome in PASSING_OUTCOMES:
        return "moved"
    if outcome == "skipped" or _file_key(gate, name, listed) == name:
        return None
    return "removed" if laid.lacks_a_name(gate, name, listed) else "lost"


def _landed_change(gate: Gate, name: str, change: ChangeImpact) -> bool:
    place = path_of_test(gate, name, change.listed)
    earlier = change.changed_earlier
    return any(change.is_test(path) for path in earlier) if place is None or gate.runner == "go" else place in earlier


def new_tests(before: GateRun | None, now: GateRun, fates: Mapping[str, TestFate]) -> tuple[str, ...]:
    """Return the new passing tests, sorted; empty if no test of the base has a fate."""
    if before is None or not fates:
        return ()
    known = before.outcomes.keys() | fates.keys()
    new = (name for name, outcome in now.outcomes.items() if outcome in PASSING_OUTCOMES and name not in known)
    return tuple(sorted(new))[:MAX_TESTS]


def _file_key(gate: Gate, name: str, files: Collection[str]) -> str:
    """Return the name under which a runner reports that the file, module or package of a test cannot be loaded."""
    match gate.runner:
        case "unittest":
            place = path_of_test(gate, name, files)
            inside = path_from_gate(gate, place) if place else None
            return (inside or name).removesuffix(".py").replace("/", ".")
        case "mocha":
            return ANY_FILE
        case "go":
            return name.rpartition(".Test")[0] or name
        case "pytest":
            return name.partition("::")[0]
        case _:
            return name.partition(" > ")[0]


def shown_name(gate: Gate, name: str) -> str:
    """Return the name of a test, or the command of a gate that names no tests."""
    return gate.command if name == EXIT_OUTCOME and gate.runner == "exit" else name


def doubts_about_tests(gates: Sequence[GateResult]) -> tuple[Doubt, ...]:
    """Return the doubts about passing gates: tests of the base that are gone, or have other expectations."""
    doubts = list[Doubt]()
    for fate, (code, words) in DOUBTS.items():
        found = [(gate.gate, name) for gate in gates for name, given in gate.base_tests.items() if given == fate]
        if found:
            names = sorted({shown_name(gate, name) for gate, name in found})
            # Gates that name no tests are shown by their commands.
            unnamed = any(shown_name(gate, name) != name for gate, name in found)
            what = "tests" if unnamed else count_of(len(found), "test")
            doubts.append(Doubt(code, f"{what} {words}: {join_limited(names, MAX_NAMED)}"))
    return tuple(doubts)


def judged_by_landings(names: Collection[str], gate: Gate, landed: Sequence[GateResult]) -> frozenset[str]:
    """Return the `names` of lost tests that a landing of the run accounted for; `landed` is in order.

    It removed or changed the test, or moved it and a later landing removed or changed a successor.
    """
    results = [each for each in landed if each.gate.name == gate.name]
    return frozenset(name for name in names if _is_judged(name, results))


def _is_judged(name: str, landed: Sequence[GateResult]) -> bool:
    """Return True if one of the results, in order, has another fate than `moved` for a test or its successors."""
    successors = {name}
    for result in landed:
        fates = {result.base_tests[each] for each in successors if each in result.base_tests}
        if fates - {"moved"}:
            return True
        successors |= set(result.new_tests) if fates else set()
    return False


def namesakes(gate: Gate, names: Collection[str], run: GateRun) -> frozenset[str]:
    """Return the `names` whose id without the path passes in another file."""
    passing = {name_in_file(gate, name) for name, outcome in run.outcomes.items() if outcome in PASSING_OUTCOMES}
    return frozenset(name for name in names if name_in_file(gate, name) in passing)


def describe_lost(names: Sequence[str]) -> str:
    """Return the message about tests that are gone and fail in their base version; empty without any."""
    if not names:
        return ""
    return (
        f"Gone, skipped or changed, but failing on this code as they were: {join_limited(names, MAX_NAMED)}. Restore "
        "them and make them pass; if they must expect something else now, change that in their place, and ask for the "
        "file with `request_files` if the task lists none.\n"
    )


def describe_vanished(names: Sequence[str]) -> str:
    """Return the message about tests that failed before the work and have no result now, although unchanged."""
    return (
        f"Failed before the work, and without a result now, although their files are the same: "
        f"{join_limited(names, MAX_NAMED)}. They have to run to their end; code that they call must not end the "
        "process.\n"
    )


async def for_each(tree: Tree, words: Sequence[str], paths: Sequence[str]) -> None:
    """Run a git command on all of the paths, which may be many."""
    if paths:
        listed = "\0".join(f":(top,literal){path}" for path in paths).encode(errors="surrogateescape")
        await tree.git(*words, "--pathspec-from-file=-", "--pathspec-file-nul", stdin=listed)
