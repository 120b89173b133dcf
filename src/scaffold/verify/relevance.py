"""What a change asks of the gates: which tests have to do with it, and which of those there were have to run again."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from scaffold.core.gates import Gate, GateRun, Tagged
from scaffold.git import commit
from scaffold.verify.contract import Tree, undo_changes
from scaffold.verify.declaration import declared
from scaffold.verify.focus import FAMILIES, Index, Selection, select
from scaffold.verify.gates import go_test
from scaffold.verify.mentions import MOST_NAMES, changed_names, go_packages, importing, marked, mentioning, texts
from scaffold.verify.places import below, place_of, within
from scaffold.verify.testlike import is_test_file

SELECTING: Mapping[str, str] = {
    **dict.fromkeys(("pytest", "unittest"), FAMILIES["py"]),
    **dict.fromkeys(("jest", "vitest"), FAMILIES["js"]),
    "go": FAMILIES["go"],
}
"""The runners that can be asked for some files of tests, and the family of these files."""
SHARING = frozenset({"pytest", "unittest"})
"""The runners that load all files of tests into one process: there one can change what another finds."""


class Relevance(Struct, frozen=True, kw_only=True):
    """A change as the gates see it."""

    paths: frozenset[str]
    """All there are, with the change."""
    changed: tuple[str, ...]
    deleted: frozenset[str]
    added: frozenset[str]
    known: Mapping[str, int]
    """How many tests the baseline has in a file."""
    since: frozenset[str]
    """What differs from the baseline's commit: more than this change where others have landed before."""
    selection: Selection
    """What is asked of gates that test."""
    former: Mapping[str, str] = {}
    """By the names that files have now, those they had at the baseline's commit."""

    @property
    def listed(self) -> frozenset[str]:
        """All files that there are, or were."""
        return self.paths | self.since

    def beside_the_point(self, gate: Gate) -> str:
        """Return why a gate has nothing to say about the change; empty if it has."""
        if not gate.folder:
            return ""
        if not any(path.startswith(f"{gate.folder}/") for path in self.paths):
            return f"There is no {gate.folder} any more."
        near = any(below(gate, path) is not None for path in self.changed)
        if near or self.selection.whole or self.asked(gate):
            return ""
        return f"Nothing in {gate.folder} has to do with the change."

    def asked(self, gate: Gate) -> tuple[str, ...]:
        """Return the files of tests to run, as from the gate's folder; none for all there is.

        A file in which nothing was collected at the base, and that is the same since, is no part of the suite.
        """
        if gate.kind != "test" or gate.runner not in SELECTING or self.selection.whole:
            return ()
        if gate.runner == "go" and not go_test.selects(gate.command):
            return ()
        mine = (path for path in self.selection.files if FAMILIES.get(_ending(path)) == SELECTING[gate.runner])
        inside = (below(gate, path) for path in mine if path in self.known or path in self.since)
        return tuple(path for path in inside if path is not None)

    def apart(self, gate: Gate, only: Sequence[str]) -> tuple[str, ...]:
        """Return the files of tests to run again by themselves, for new ones ran beside them in one process.

        Of `only` some files if there are any; none where no new tests ran, or runners keep files apart anyway.
        """
        if gate.runner not in SHARING:
            return ()
        ran = only or tuple(inside for path in sorted(self.paths) if (inside := below(gate, path)) is not None)
        tests = [path for path in ran if is_test_file(path)]
        old = tuple(path for path in tests if within(gate, path) in self.known)
        return old if len(old) < len(tests) else ()

    def expected(self, gate: Gate, only: Sequence[str]) -> Callable[[str], bool]:
        """Return what tells whether a test that passed before has to run now, of `only` some files if there are any.

        It has not if its file was gone already.
        """
        asked, listed = frozenset(only), self.listed

        def expected(name: str) -> bool:
            place = place_of(gate, name, listed)
            if place is None:
                return not asked
            if gate.runner == "go":
                ran = (within(gate, path) for path in asked)
                return not asked or any(_tests_of(place, path) for path in (*self.deleted, *ran))
            if place in self.paths:
                return not asked or below(gate, place) in asked
            return place in self.deleted

        return expected


async def relevance(
    tree: Tree,
    before: Sequence[GateRun],
    since: Sequence[str],
    *,
    focused: bool,
    tagged: Sequence[Tagged] = (),
    former: Mapping[str, str] = {},
) -> Relevance:
    """Return what the change of `tree` asks for; everything where it is not `focused`.

    `since` are the paths that differ from the commit of the baseline's runs, `before`; `tagged` tests are added;
    `former` are the names that files had there.
    """
    changes = await commit.changes(tree.git, tree.base, tree.commit)
    paths = frozenset(await commit.listed_paths(tree.git, tree.commit))
    known = _known(before, paths)
    changed = tuple(change.path for change in changes)
    whole = Selection(whole="everything is asked for")
    return Relevance(
        paths=paths,
        changed=changed,
        deleted=frozenset(change.path for change in changes if change.kind == "D"),
        added=frozenset(change.path for change in changes if change.kind == "A"),
        known=known,
        since=frozenset((*since, *changed)),
        selection=await _selection(tree, changed, Index(paths), known, tagged) if focused else whole,
        former=former,
    )


def _known(before: Sequence[GateRun], paths: frozenset[str]) -> Mapping[str, int]:
    """Return how many tests there were in each file; of a package of Go, which is told as one, each has its share."""
    found: Counter[str] = Counter()
    for run in (run for run in before if run.gate.kind == "test"):
        places = Counter(place for name in run.outcomes if (place := place_of(run.gate, name, paths)) is not None)
        found.update(_shared(places, paths) if run.gate.runner == "go" else places)
    return found


def _shared(packages: Mapping[str, int], paths: frozenset[str]) -> Mapping[str, int]:
    files = {folder: [path for path in paths if _tests_of(folder, path)] for folder in packages}
    return {path: max(1, count // len(files[folder])) for folder, count in packages.items() for path in files[folder]}


async def _selection(
    tree: Tree, changed: Sequence[str], index: Index, known: Mapping[str, int], tagged: Sequence[Tagged]
) -> Selection:
    sources = [path for path in changed if _ending(path) in FAMILIES and not is_test_file(path)]
    names = await _names(tree, sources)
    if len(names) > MOST_NAMES:
        return Selection(whole=f"{len(names)} exported names changed")
    await undo_changes(tree)  # who mentions a name is looked up in the files
    callers = {*await mentioning(tree.git, names), *await _importers(tree, sources, index)}
    return select(changed, index, callers=callers, tagged=await _tagged(tree, changed, tagged), sizes=known)


async def _importers(tree: Tree, sources: Sequence[str], index: Index) -> tuple[str, ...]:
    """Return the files of Go that import a package which changed; what a package says may change without its names."""
    if not any(path.endswith(".go") for path in sources):
        return ()
    manifests = [path for path in index.paths if path.rpartition("/")[2] == "go.mod"]
    held = await texts(tree.git, [(tree.commit, path) for path in manifests])
    modules = {path.rpartition("/")[0]: text for (_, path), text in held.items()}
    return await importing(tree.git, go_packages(sources, modules))


async def _tagged(tree: Tree, changed: Sequence[str], tagged: Sequence[Tagged]) -> Mapping[str, Sequence[str]]:
    """Return the files of tests that carry the tags of what changed, by what they are for."""
    asked = [each for each in tagged if any(declared(path, (each.path,)) for path in changed)]
    return {each.path: [path for path in await marked(tree.git, each.tags) if is_test_file(path)] for each in asked}


async def _names(tree: Tree, sources: Sequence[str]) -> frozenset[str]:
    """Return the exported names that the change changed."""
    held = await texts(tree.git, [(at, path) for path in sources for at in (tree.base, tree.commit)])
    names = (changed_names(path, held.get((tree.base, path)), held.get((tree.commit, path))) for path in sources)
    return frozenset[str]().union(*names)


def _ending(path: str) -> str:
    return path.rpartition(".")[2]


def _tests_of(folder: str, path: str) -> bool:
    return path.endswith("_test.go") and path.rpartition("/")[0] == folder
