"""The three levels of contract that a patch is judged at, each a base commit and a check on it."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

from replay.commits import is_test
from replay.instances import Instance, Patch, files_tested, only_paths, paths_of, without_paths
from replay.oracle import DoesNotApplyError, commit_patch, run_tests
from replay.place import Place

Level = Literal["existing", "official", "strengthened"]
"""The tests as they are at the base | the official test patch | that, and tests that right patches brought along."""
LEVELS: tuple[Level, ...] = ("existing", "official", "strengthened")


class NotHereError(Exception):
    """An instance does not count here: its message says why."""


class Target(Struct, frozen=True, kw_only=True):
    """What a patch is applied to, and what it has to pass."""

    base: str
    tests: tuple[str, ...]
    """Test files, or ids of tests."""
    left_out: tuple[str, ...] = ()
    """Paths of which a submitted patch changes nothing."""

    @property
    def check(self) -> str:
        """Return the command of the contract."""
        return " ".join(["python -m pytest -q", *map(shlex.quote, self.tests)])


class Official(Struct, frozen=True, kw_only=True):
    """An instance whose gold patch passes here, and whose base fails."""

    target: Target
    gold: str
    """The commit of the gold patch."""
    f2p: tuple[str, ...]
    """The ids of the tests that have to go from fail to pass."""
    files: tuple[str, ...]


def existing_target(instance: Instance, place: Place) -> Target:
    """Return the target of the existing tests: the instance's test files that the base has."""
    there = set(place.git("ls-tree", "-r", "--name-only", "-z", instance.base).split("\0"))
    files = tuple(path for path in files_tested(instance) if path in there)
    if not files:
        raise NotHereError("the base has none of its test files")
    return Target(base=instance.base, tests=files)


def official(instance: Instance, place: Place) -> Official:
    """Return the instance with the official tests; an oracle counts only where gold passes it and the base does not."""
    files = files_tested(instance)
    place.reset(instance.base)
    base = commit_patch(place, instance.test_patch.encode(), "the official tests")
    place.git("update-ref", f"refs/bench/{instance.id}", base)  # git would collect it otherwise
    gold = commit_patch(place, instance.gold.encode(), "the gold patch")
    place.git("update-ref", f"refs/bench/{instance.id}-gold", gold)
    before, after = run_tests(place, base, files), run_tests(place, gold, files)
    for name in (*instance.f2p, *instance.p2p):
        if not passes(after, [name]):
            raise NotHereError(f"the gold patch does not pass {name} here")
    fixed = [name for name in instance.f2p if passes(before, [name])]
    if fixed:
        raise NotHereError(f"the base passes {fixed[0]} here")
    return Official(
        target=Target(
            base=base,
            tests=_ids(after, (*instance.f2p, *instance.p2p)),
            left_out=paths_of(instance.test_patch.encode()),
        ),
        gold=gold,
        f2p=_ids(after, instance.f2p),
        files=files,
    )


def strengthened(instance: Instance, known: Official, right: Iterable[Patch], place: Place) -> Target:
    """Return the official target with the tests of right patches that fail on the base and pass with the gold patch.

    Which these are is decided by running them. Each file that a right patch changes or adds is laid beside the
    official one under a name of its own.
    """
    extra: dict[str, bytes] = {}
    for patch in right:
        extra |= _own_tests(instance, patch, place)
    if not extra:
        return known.target
    before = run_tests(place, _with_files(place, known.target.base, extra), tuple(extra))
    after = run_tests(place, _with_files(place, known.gold, extra), tuple(extra))
    ids = tuple(name for name, outcome in after.items() if outcome == "passed" and before.get(name) != "passed")
    telling = {path: text for path, text in extra.items() if any(name.startswith(f"{path}::") for name in ids)}
    if not telling:
        return known.target
    base = _with_files(place, known.target.base, telling)
    place.git("update-ref", f"refs/bench/{instance.id}-strengthened", base)
    return Target(base=base, tests=(*known.target.tests, *ids), left_out=known.target.left_out)


def commit_submitted(patch: Patch, target: Target, place: Place) -> str:
    """Return the commit of a submitted patch on the base of a target."""
    place.reset(target.base)
    kept = without_paths(patch.patch.encode(), target.left_out) if target.left_out else patch.patch.encode()
    return commit_patch(place, kept, "the submitted patch")


def passes(outcomes: Mapping[str, str], names: Sequence[str]) -> bool:
    """Return whether each test of these names ran and passed; a name without `::` means every test function of it."""
    found = [[outcomes[name] for name in _ids(outcomes, [each])] for each in names]
    return all(each and set(each) <= {"passed", "xfailed"} for each in found)


def _ids(outcomes: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the tests of these names, in the order in which they ran: some of sympy's depend on it."""
    wanted = frozenset(names)
    return tuple(test for test in outcomes if test in wanted or test.rpartition("::")[2] in wanted)


def _own_tests(instance: Instance, patch: Patch, place: Place) -> dict[str, bytes]:
    """Return the test files of a patch as it leaves them, by a name that no other patch has."""
    text = patch.patch.encode()
    paths = [path for path in paths_of(text) if is_test(path)]
    place.reset(instance.base)
    try:
        commit = commit_patch(place, only_paths(text, paths), "tests of a patch")
    except DoesNotApplyError:
        return {}
    there = set(place.git("ls-tree", "-r", "--name-only", "-z", commit).split("\0"))
    return {
        str(PurePosixPath(path).with_name(f"{PurePosixPath(path).stem}_{patch.hash[:8]}.py")): place.git_bytes(
            "show", f"{commit}:{path}"
        )
        for path in paths
        if path in there and path.endswith(".py")
    }


def _with_files(place: Place, base: str, files: Mapping[str, bytes]) -> str:
    """Return a commit on `base` with these files."""
    place.git("checkout", "--quiet", "--force", "--detach", base)
    place.git("clean", "--quiet", "-ffd")
    for path, text in files.items():
        (place.repo / path).parent.mkdir(parents=True, exist_ok=True)
        (place.repo / path).write_bytes(text)
    return commit_patch(place, b"", "tests of right patches")
