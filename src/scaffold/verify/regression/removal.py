"""What the work removed, and which tests may go with it: those that speak of a name that nothing has any more.

A name is removed where a source that changed had it and no file has it now, whatever it is there: a function that is
there still, and does something else, is not removed. Texts are read for it, nothing is run.
"""

import re
from collections.abc import Callable, Collection, Mapping

from scaffold.core.gates import Gate
from scaffold.core.ids import Commit
from scaffold.verify.contract.checks import Tree, restore_tracked_files
from scaffold.verify.locate_tests import name_in_file, title_in_source
from scaffold.verify.paths.conventions import PROSE_SUFFIXES, is_test
from scaffold.verify.regression.affected_tests import ChangeImpact
from scaffold.verify.regression.mentions import MOST_NAMES, SHORTEST_NAME, mentioning, texts
from scaffold.verify.regression.naming import bound, given, spoken, untold
from scaffold.verify.regression.selection import LANGUAGE_FAMILIES

NAMELESS = frozenset({"__init__", "__main__", "index", "mod", "lib", "main"})
"""Files that are called like the folder they are in."""
_BETWEEN = re.compile(r"::|\.")


async def without_subject(gate: Gate, homes: Mapping[str, str], tree: Tree, change: ChangeImpact) -> frozenset[str]:
    """Return which of the tests, by name with the file each was in, speak of what the change removed."""
    removed = await _removed(tree, change) if homes else frozenset()
    if not removed:
        return frozenset()
    held = await texts(tree.git, [(tree.base, path) for path in sorted(set(homes.values()))])

    def speaks(name: str, home: str) -> bool:
        test = _BETWEEN.split(name_in_file(gate, name).partition("[")[0])
        return not removed.isdisjoint(spoken(home, held.get((tree.base, home), ""), test, title_in_source(gate, name)))

    return frozenset(name for name, home in homes.items() if speaks(name, home))


async def removed_whole(tree: Tree, change: ChangeImpact) -> tuple[str, ...]:
    """Return the files that were deleted and in whose place nothing has come, neither by its name nor by theirs."""
    alone = without_successor(change.deleted, change.changed, change.paths)
    sources = [path for path in change.changed if _is_source(path)] if alone else []
    held = await texts(tree.git, [(at, path) for path in sources for at in (tree.base, tree.commit)])
    now = _all(given, held, tree.commit)
    return tuple(path for path in alone if now.isdisjoint(_telling(given(path, held.get((tree.base, path), "")))))


def without_successor(deleted: Collection[str], changed: Collection[str], paths: Collection[str]) -> tuple[str, ...]:
    """Return the deleted files in whose place nothing has come, of all `paths` there are; pure.

    What is called alike may be what others load in place of it: beside it, or anywhere if it `changed` or is new.
    """
    anywhere = {_called(path) for path in changed if path in paths}
    beside = {(_beside(path), _called(path)) for path in paths} if deleted else set()
    return tuple(
        path
        for path in sorted(deleted)
        if _called(path) not in anywhere and (_beside(path), _called(path)) not in beside
    )


async def _removed(tree: Tree, change: ChangeImpact) -> frozenset[str]:
    """Return the names that sources had before the work and that no file has now, be it a test or data."""
    touched = [path for path in change.changed if _ending(path) not in PROSE_SUFFIXES]
    held = await texts(tree.git, [(at, path) for path in touched for at in (tree.base, tree.commit)])
    had = {key: text for key, text in held.items() if _is_source(key[1])}
    lost = _telling(_all(given, had, tree.base)) - _all(bound, held, tree.commit)
    if not lost or len(lost) > MOST_NAMES or any(_is_new(key, text, held, tree.base) for key, text in held.items()):
        return frozenset()
    await restore_tracked_files(tree)  # who has a name is looked up in the files
    others = [path for path in await mentioning(tree.git, lost) if _ending(path) in LANGUAGE_FAMILIES]
    return lost - _all(bound, await texts(tree.git, [(tree.commit, path) for path in others]), tree.commit)


def _is_new(at: tuple[Commit, str], text: str, held: Mapping[tuple[Commit, str], str], base: Commit) -> bool:
    """Tell whether a file gives names in a way that cannot be read, and did not before."""
    return bool(untold(at[1], text) - untold(at[1], held.get((base, at[1]), "")))


def _all(
    named: Callable[[str, str], frozenset[str]], held: Mapping[tuple[Commit, str], str], commit: Commit
) -> frozenset[str]:
    """Return what is `named` in all files of a commit."""
    return frozenset[str]().union(*(named(path, text) for (at, path), text in held.items() if at == commit))


def _telling(names: Collection[str]) -> frozenset[str]:
    """Return the names that are long enough to stand for something, and that not every module has."""
    return frozenset(name for name in names if len(name) >= SHORTEST_NAME and not name.startswith("__"))


def _is_source(path: str) -> bool:
    return _ending(path) in LANGUAGE_FAMILIES and not is_test(path)


def _ending(path: str) -> str:
    return path.rpartition(".")[2]


def _called(path: str) -> str:
    """Return what a file is loaded by: its name without endings, or that of its folder."""
    folder, _, name = path.rpartition("/")
    stem = name.partition(".")[0]
    return folder.rpartition("/")[2] if stem in NAMELESS and folder else stem


def _beside(path: str) -> str:
    """Return the folder in which others find a file by what it is called."""
    folder, _, name = path.rpartition("/")
    return folder.rpartition("/")[0] if name.partition(".")[0] in NAMELESS and folder else folder
