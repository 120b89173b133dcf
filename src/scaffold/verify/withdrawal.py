"""Tests that the work took out of a file that stays: no loss where the file as it was still passes with the work.

Who renames a test, makes one of several or moves it leaves the code alone: what is gone would pass. Who takes a test
out because it fails would be found failing.
"""

import os
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from scaffold.core.gates import Gate, GateRun
from scaffold.git import commit
from scaffold.verify.comparison import MOST_NAMED, SOUND
from scaffold.verify.contract import Tree, undo_changes
from scaffold.verify.declaration import declared
from scaffold.verify.places import place_of
from scaffold.verify.relevance import Relevance

CHOOSING = frozenset({"pytest", "unittest"})
"""The runners that run single tests of a file and load no other file of tests."""
UNCACHED: Mapping[str, str] = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": os.devnull}
"""Neither text of a file is ever taken for the other: they may be of one size and one second."""


class Withdrawn(Struct, frozen=True, kw_only=True):
    """Tests that are gone, though their file is there."""

    before: frozenset[str]
    """By work that has landed: it was judged then."""
    now: tuple[str, ...]
    """By this change, out of files that its action declared."""
    files: tuple[str, ...]
    """The files these were in, from the top of the repository."""


async def withdrawn(
    gate: Gate, gone: Sequence[str], tree: Tree, change: Relevance, *, since: str, files: Sequence[str]
) -> Withdrawn:
    """Sort out the tests that are `gone` by who took them out: their names leave the text of a file with them.

    `since` is the commit at which they were last there, `files` is what the action declared.
    """
    told = ((name, place_of(gate, name, change.paths)) for name in gone if gate.runner in CHOOSING)
    places = {name: at for name, at in told if at is not None and at in change.paths and at in change.since}
    asked = sorted(set(places.values()))
    then, lately = await _texts(tree, since, asked), await _texts(tree, tree.base, asked)
    open_still = {name: at for name, at in places.items() if at in then and at in lately}
    before = {name for name, at in open_still.items() if _says(then[at], name) and not _says(lately[at], name)}
    mine = {at for at in open_still.values() if at in change.changed and declared(at, files)}
    now = {name: at for name, at in open_still.items() if at in mine and name not in before}
    return Withdrawn(before=frozenset(before), now=tuple(sorted(now)), files=tuple(sorted(set(now.values()))))


async def put_back(tree: Tree, files: Sequence[str]) -> Tree:
    """Give the `files` the text they had before the work, and return the tree to run them in, until it is undone."""
    await undo_changes(tree)
    await tree.git("checkout", tree.base, "--", *(f":(top,literal){path}" for path in files))
    return structs.replace(tree, environ={**tree.environ, **UNCACHED})


def with_kept(run: GateRun, again: GateRun, names: Sequence[str]) -> GateRun:
    """Return the run with those of the tests by these `names` that passed when they ran `again`, and word of them."""
    kept = {name: again.outcomes[name] for name in names if not again.trouble and again.outcomes.get(name) in SOUND}
    return structs.replace(run, outcomes={**run.outcomes, **kept}, detail=f"{_told(sorted(kept))}{run.detail}")


async def _texts(tree: Tree, at: str, paths: Sequence[str]) -> Mapping[str, str]:
    """Return what is in the files at a commit, by path; nothing for one that is not there."""
    held = await commit.all_contents(tree.git, [f"{at}:{path}" for path in paths])
    return {path: text.decode(errors="replace") for path, text in zip(paths, held, strict=True) if text is not None}


def _says(text: str, name: str) -> bool:
    """Tell whether the text of a file has the name of a test in it, as a word."""
    word = re.split(r"::|\.", name.partition("[")[0])[-1]
    return re.search(rf"\b{re.escape(word)}\b", text) is not None


def _told(kept: Sequence[str]) -> str:
    if not kept:
        return ""
    named = ", ".join(kept[:MOST_NAMED]) + (f" and {len(kept) - MOST_NAMED} more" if len(kept) > MOST_NAMED else "")
    subject = "1 test that was" if len(kept) == 1 else f"{len(kept)} tests that were"
    verb = "passes" if len(kept) == 1 else "pass"
    return f"{subject} taken out of declared files {verb} with these files as they were: {named}.\n"
