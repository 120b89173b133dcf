"""Tests that the work took out: no loss where they still pass with the tests as they were and the code as it is now.

Who renames a test, makes one of several or moves it leaves the code alone: what is gone would pass. Who takes a test
out because it fails would be found failing, be it that its whole file went with it.
"""

import os
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, structs

from scaffold.core.gates import Gate, GateRun
from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited
from scaffold.verify.contract.checks import Tree, restore_tracked_files
from scaffold.verify.locate_tests import name_in_file, occurs_in, path_from_gate, path_of_test
from scaffold.verify.paths.conventions import is_test, is_test_file
from scaffold.verify.paths.declared_paths import is_declared_path
from scaffold.verify.regression.affected_tests import ChangeImpact
from scaffold.verify.regression.comparison import MAX_NAMED, PASSING_OUTCOMES
from scaffold.verify.regression.mentions import texts
from scaffold.verify.regression.removal import removed_whole

CHOOSING = frozenset({"pytest", "unittest"})
"""The runners that run single tests of a file and load no other file of tests."""
BY_FILE = frozenset({"go", "jest", "vitest"})
"""Those that can be asked for files; all others run whole."""
UNCACHED: Mapping[str, str] = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": os.devnull}
"""Neither text of a file is ever taken for the other: they may be of one size and one second."""


class Withdrawn(Struct, frozen=True, kw_only=True):
    """Tests that are gone from files that git knows, or knew."""

    before: frozenset[str]
    """By work that has landed: it was judged then."""
    homes: Mapping[str, str]
    """The files, from the top of the repository, of those that this change took out; the action declared them."""

    def selection(self, gate: Gate, former: Mapping[str, str]) -> tuple[str, ...]:
        """Return what to ask the gate for, by the names of before; none for all there is."""
        if gate.runner in CHOOSING:
            return tuple(sorted(former.get(name, name) for name in self.homes))
        if gate.runner in BY_FILE:
            inside = (path_from_gate(gate, path) for path in sorted(set(self.homes.values())))
            return tuple(path for path in inside if path is not None)
        return ()


async def withdrawn(
    gate: Gate, gone: Collection[str], tree: Tree, change: ChangeImpact, *, since: Commit, files: Sequence[str]
) -> Withdrawn:
    """Sort out the tests that are `gone` by who took them out: their names leave the text of a file with them.

    `since` is the commit at which they were last there, `files` is what the action declared.
    """
    touched = [path for path in sorted(change.changed_since_baseline) if is_test_file(path)] if gone else []
    then, lately = await _texts(tree, since, touched), await _texts(tree, tree.base, touched)
    listed, held = change.listed, {**then, **lately}
    places = {name: path_of_test(gate, name, listed) for name in gone}
    told = ((name, _home(gate, name, place, change, held)) for name, place in places.items())
    homes = {name: home for name, home in told if home is not None}

    def was_taken_before(name: str, home: str) -> bool:
        first = then.get(change.former.get(home, home), then.get(home, ""))
        return occurs_in(first, gate, name) and not occurs_in(lately.get(home, ""), gate, name)

    before = frozenset(name for name, home in homes.items() if was_taken_before(name, home))
    mine = {home for home in homes.values() if home in change.changed and is_declared_path(home, files)}
    return Withdrawn(
        before=before, homes={name: home for name, home in homes.items() if home in mine and name not in before}
    )


async def put_back(tree: Tree, change: ChangeImpact) -> Tree:
    """Make all tests what they were before the work, and return the tree to run them in, until it is undone.

    What was deleted is there again as well, unless something else has come in its place: tests of what was removed
    show by it that nothing else is wrong.
    """
    await restore_tracked_files(tree)
    added = [path for path in change.changed if path in change.added and is_test(path)]
    tests = [path for path in change.changed if path not in change.added and is_test(path)]
    removed = await removed_whole(tree, change)
    await _each(tree, ("rm", "--force", "--quiet"), added)
    await _each(tree, ("checkout", tree.base), sorted({*tests, *removed}))
    return structs.replace(tree, commit=tree.base, environ={**tree.environ, **UNCACHED})


def with_kept(run: GateRun, again: GateRun, names: Collection[str]) -> GateRun:
    """Return the run with those of the tests by these `names` that passed when they ran `again`."""
    kept = {
        name: again.outcomes[name]
        for name in names
        if not again.problem and again.outcomes.get(name) in PASSING_OUTCOMES
    }
    return structs.replace(run, outcomes={**run.outcomes, **kept})


def namesakes(gate: Gate, names: Collection[str], run: GateRun) -> frozenset[str]:
    """Return those of the `names` by which, after the file, some test passed elsewhere."""
    passing = {name_in_file(gate, name) for name, outcome in run.outcomes.items() if outcome in PASSING_OUTCOMES}
    return frozenset(name for name in names if name_in_file(gate, name) in passing)


def told_broken(names: Sequence[str]) -> str:
    """Return what is said of tests that are gone and would fail, and what to do about it, on a line of its own."""
    if not names:
        return ""
    advice = "Put back what is still meant, and change in its place what it is to expect."
    return f"Taken out, but failing as they were: {join_limited(names, MAX_NAMED)}. {advice}\n"


def _home(gate: Gate, name: str, place: str | None, change: ChangeImpact, held: Mapping[str, str]) -> str | None:
    """Return the file that a test was in, of those that changed since, by what they held; None if it was in none."""
    if place is not None and gate.runner != "go":
        return next((path for path in (place, change.former.get(place, place)) if path in held), None)
    near = (path for path in held if place is None or path.rpartition("/")[0] == place)
    saying = [path for path in near if path_from_gate(gate, path) is not None and occurs_in(held[path], gate, name)]
    return next((path for path in saying if path in change.deleted), next(iter(saying), None))


async def _texts(tree: Tree, at: Commit, paths: Sequence[str]) -> Mapping[str, str]:
    """Return what files held at a commit, by path; those that were not there are left out."""
    return {path: text for (_, path), text in (await texts(tree.git, [(at, path) for path in paths])).items()}


async def _each(tree: Tree, words: Sequence[str], paths: Sequence[str]) -> None:
    """Have git do something to each of the paths, which may be many."""
    if paths:
        listed = "\0".join(f":(top,literal){path}" for path in paths).encode(errors="surrogateescape")
        await tree.git(*words, "--pathspec-from-file=-", "--pathspec-file-nul", stdin=listed)
