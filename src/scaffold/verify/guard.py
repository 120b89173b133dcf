"""What a candidate may touch: the first question, asked of its paths, before anything of it is run.

Nobody who is checked decides how: that stays as it was on the base, unless the action declared it.
"""

import posixpath
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from msgspec import Struct

from scaffold.core.contract import CheckResult, Contract
from scaffold.core.gates import Gate, GateRun
from scaffold.core.legible import legible
from scaffold.git import commit
from scaffold.git.commit import Change
from scaffold.policy.areas import Areas
from scaffold.verify.contract import Tree, constraints, sealed
from scaffold.verify.deciding import Outset, decides, is_inert, launched, precedes, runs_unasked, unsatisfied
from scaffold.verify.declaration import declared, meant, named
from scaffold.verify.manifest import decisive, is_manifest
from scaffold.verify.places import place_of
from scaffold.verify.shadow import shadows
from scaffold.verify.testlike import is_test, is_test_file

SHOWN = 20
"""So many paths of a kind are named."""

MOST_RECIPES = 20
"""So many files of recipes are read for the scripts that they run."""

NAMING = frozenset({"pytest", "unittest", "jest", "vitest"})
"""The runners whose names tell the file of a test, and whose tests have files of their own."""

LINTERS = frozenset({"black", "flake8", "isort", "mypy", "pylint", "ruff", "pycodestyle", "pydocstyle", "format"})
"""What plugins of pytest call the one result that they give for each file."""

Reason = tuple[str, str]
"""A path, and what is wrong with touching it: a sentence in two parts."""

_AREAS = "The action did not declare these, and they are protected; put them back, or have the plan declare them."
_DECIDING = "What decides checks stays as it is, unless the action declares it; put these back. New tests are welcome."
_SHADOWING = "These would be found in place of what is there already; give them other names."
_LINKS = "Links lead to ordinary files of the repository, or they are not made; remove these."


class Mandate(Struct, frozen=True, kw_only=True):
    """What an action may touch, and what judges it."""

    files: tuple[str, ...] = ()
    """The paths, folders and globs that it declared; without any, nothing is declared."""
    areas: Areas = Areas()
    contract: Contract | None = None
    gates: tuple[GateRun, ...] = ()
    """What judges the work besides the contract, as it was before."""


async def guard(mandate: Mandate, tree: Tree, changes: Sequence[Change]) -> tuple[CheckResult, ...]:
    """Return what blocks the changes of a tree, or is worth a warning; nothing where all is well."""
    paths = [change.path for change in changes]
    held = Contract(must_not_change=mandate.contract.must_not_change if mandate.contract else ())
    found = [sealed(paths), *(each for each in constraints(held, (), paths) if each.verdict == "fail")]
    found.append(_blocked("protected", _AREAS, protected_without_word(changes, mandate)))
    found += await _of_checks(mandate, tree, changes)
    found.append(_outside(changes, mandate.files))
    return tuple(each for each in found if each is not None)


def protected(changed: Iterable[str], files: Sequence[str], areas: Areas) -> tuple[str, ...]:
    """Return the paths of protected areas that were declared and touched: a human is to look at these."""
    return tuple(path for path in changed if areas.of(path) and meant(path, files))


def protected_without_word(changes: Iterable[Change], mandate: Mandate) -> Iterator[Reason]:
    """Yield the paths of protected areas that nobody declared; a new test is none, whatever it is called."""
    for change in changes:
        area = mandate.areas.of(change.path)
        if area and not meant(change.path, mandate.files) and not _new_test(change):
            yield change.path, f"lies in the protected area `{area}`"


async def _of_checks(mandate: Mandate, tree: Tree, changes: Sequence[Change]) -> list[CheckResult | None]:
    """Judge what would decide the checks of the work itself."""
    after = await commit.listed_paths(tree.git, tree.commit)
    gone = {change.path for change in changes if change.kind == "D"}
    added = [change.path for change in changes if change.kind == "A"]
    before = sorted(gone.union(after).difference(added))
    outset = await _outset(mandate, tree, frozenset(before))
    deciding = [
        each for change in changes async for each in _decided(change, tree, outset) if _undeclared(each, mandate)
    ]
    hiding = [
        (each.path, each.why)
        for each in shadows(added, before, after)
        if each.certain or not named(each.path, mandate.files)
    ]
    leading = [each for change in changes if change.is_link async for each in _led(change, tree)]
    return [
        _blocked("checks", _DECIDING, deciding),
        _blocked("shadowing", _SHADOWING, hiding),
        _blocked("links", _LINKS, leading),
    ]


async def _outset(mandate: Mandate, tree: Tree, before: frozenset[str]) -> Outset:
    """Return what the base was like; what recipes and scripts run that judge the work counts as commands, too."""
    checks = mandate.contract.commands if mandate.contract else ()
    commands = [*(check.command for check in checks), *(run.gate.command for run in mandate.gates)]
    tests = _seen(mandate.gates, before)
    targets: set[str] = set()
    outset = Outset(before, commands, tests=tests)
    read: set[str] = set()
    while more := sorted(filter(outset.follows, before - read))[: MOST_RECIPES - len(read)]:
        for path in more:
            text = (await commit.contents(tree.git, tree.base, path) or b"").decode(errors="replace")
            commands += launched(path, text)
            targets |= unsatisfied(path, text, outset.said)
        read |= set(more)
        outset = Outset(before, commands, tests=tests, targets=targets)
    return outset


def _seen(gates: Sequence[GateRun], paths: frozenset[str]) -> frozenset[str]:
    """Return the files in which runners have found tests that somebody wrote as such, whatever they are called.

    Examples in docstrings, and what plugins say of each file, make no test of a module.
    """
    runs = [run for run in gates if run.gate.kind == "test" and run.gate.runner in NAMING]
    named_so = ((run.gate, name) for run in runs for name in run.outcomes if _is_function(run.gate, name))
    return frozenset(path for gate, name in named_so if (path := place_of(gate, name, paths)) is not None)


def _is_function(gate: Gate, name: str) -> bool:
    """Tell whether what a runner calls so is a function, as a test of Python's has to be."""
    if gate.runner != "pytest":
        return True
    *_, function = name.partition("[")[0].split("::")
    return function.isidentifier() and function.casefold() not in LINTERS


def _undeclared(reason: Reason, mandate: Mandate) -> bool:
    """Tell whether an action had no such file in mind; what runs unasked has to be named itself."""
    path, _ = reason
    return not (named if runs_unasked(path) else meant)(path, mandate.files)


async def _decided(change: Change, tree: Tree, outset: Outset) -> AsyncIterator[Reason]:
    why = decides(change, outset)
    if why is None and is_manifest(change.path):
        before = None if change.kind == "A" else await commit.contents(tree.git, tree.base, change.path)
        after = None if change.kind == "D" else await commit.contents(tree.git, tree.commit, change.path)
        parts = decisive(change.path, before, after, untested=outset.untested, asked=outset.said)
        why = f"changes what decides checks: {', '.join(parts)}" if parts else None
    if why is None and (follower := precedes(change, outset)):
        before = await commit.contents(tree.git, tree.base, change.path) or b""
        after = await commit.contents(tree.git, tree.commit, change.path) or b""
        why = f"is run before {follower}" if is_inert(before) and not is_inert(after) else None
    if why is not None:
        yield change.path, why


async def _led(change: Change, tree: Tree) -> AsyncIterator[Reason]:
    """Yield where a link leads, if that is no place for one."""
    target = (await commit.contents(tree.git, tree.commit, change.path) or b"").decode(errors="replace")
    place = posixpath.normpath(posixpath.join(posixpath.dirname(change.path), target))
    if target.startswith("/") or place.partition("/")[0] == "..":
        yield change.path, "leads out of the repository"
    elif is_test(place) or is_test(f"{place}/x") or runs_unasked(place) or sealed([place]):
        yield change.path, f"leads to {place}, which decides checks"
    elif is_test_file(change.path) or change.path.rpartition("/")[2] == "conftest.py":
        yield change.path, f"makes {place} a test, which anybody may change"


def _outside(changes: Iterable[Change], files: Sequence[str]) -> CheckResult | None:
    """Return a warning about paths that an action touched besides those it declared; new tests are welcome."""
    others = [each.path for each in changes if files and not declared(each.path, files) and not _new_test(each)]
    if not others:
        return None
    shown = _list(others)
    return CheckResult(name="files", verdict="warn", detail=legible(f"Touched, though not declared:\n{shown}"))


def _new_test(change: Change) -> bool:
    return change.kind == "A" and is_test(change.path)


def _blocked(name: str, advice: str, reasons: Iterable[Reason]) -> CheckResult | None:
    told = [f"{path} {why}" for path, why in reasons]
    if not told:
        return None
    return CheckResult(name=name, verdict="fail", detail=legible(f"{advice}\n{_list(told)}"))


def _list(lines: Sequence[str]) -> str:
    more = [f"- and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n".join([*(f"- {line}" for line in lines[:SHOWN]), *more])
