"""New files that are found in place of modules that were there: of Python's own, of a runner's, of the repository's."""

import sys
from collections.abc import Collection, Iterator

from msgspec import Struct

from scaffold.verify.testlike import TEST_NAME

RUNNERS = frozenset(
    {
        *("pytest", "_pytest", "pluggy", "iniconfig", "py", "coverage", "nose", "nose2", "xdist", "hypothesis"),
        *("pytest_asyncio", "pytest_cov", "pytest_django", "pytest_mock", "pytest_timeout", "anyio", "mock", "pip"),
        *("setuptools", "pkg_resources", "mypy", "ruff", "flake8", "pyflakes", "pylint", "tox", "nox"),
        *("packaging", "pygments", "execnet"),
    }
)
"""What checks code, by the names it is imported by."""
STANDARD = sys.stdlib_module_names - {"test", "this", "antigravity", "idlelib", "turtledemo"}
SOURCES = ("src", "lib", "python")
"""Folders at the top in which packages are commonly kept: modules are found there as they are at the top."""
PYTHON = (".py", ".so", ".pyd")
SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
INIT = "__init__.py"


class Shadow(Struct, frozen=True):
    """A new file that takes something's place."""

    path: str
    why: str
    """The end of a sentence that begins with the path."""
    certain: bool = False
    """Whether one of the two can never be imported: nobody can have meant that."""


class _Layout(Struct, frozen=True):
    """Which modules can be imported, from where."""

    packages: frozenset[str]
    """Folders with an `__init__.py`."""
    holding: frozenset[str]
    """Folders with any Python in them, however deep."""
    roots: frozenset[str]
    """Folders that are looked through for modules; `""` is the top."""
    testing: frozenset[str]
    """Those of them that test runners add because tests lie in them."""
    names: dict[str, frozenset[str]]
    """What can be imported from each root."""


def shadows(added: Collection[str], before: Collection[str], after: Collection[str]) -> Iterator[Shadow]:
    """Yield each of the `added` paths that takes something's place.

    `before` and `after` are all paths without and with the change.
    """
    if any(path.endswith(PYTHON) for path in added):
        yield from _python(added, _layout(before), _layout(after), frozenset(after))
    if any(path.endswith(SCRIPTS) for path in added):
        yield from _scripts(added, before, frozenset(after))


def _python(added: Collection[str], old: _Layout, new: _Layout, after: frozenset[str]) -> Iterator[Shadow]:
    modules: dict[str, list[str]] = {}
    for path in after:
        if path.endswith(PYTHON):
            modules.setdefault(_module(path), []).append(path)
    for path in added:
        if not path.endswith(PYTHON):
            continue
        twin = _twin(path, new, modules)
        if twin:
            yield twin
        else:
            yield from (Shadow(path, why) for why in _taken(path, old, new))


def _twin(path: str, layout: _Layout, modules: dict[str, list[str]]) -> Shadow | None:
    """Return in what way a new file has the module name of something else in the same folder, None if it has not."""
    folder, _, name = path.rpartition("/")
    place = folder if name == INIT else _module(path)
    if name != INIT and place in layout.holding:
        return Shadow(path, f"has the name of the folder {place}/", certain=place in layout.packages)
    other = next((other for other in modules.get(place, ()) if other != path), None)
    return None if other is None else Shadow(path, f"has the name of {other}", certain=True)


def _taken(path: str, old: _Layout, new: _Layout) -> Iterator[str]:
    """Yield in which ways a new file has a name under which something else is imported."""
    for root, name in _names(path, new.roots, new.packages):
        if name in old.names.get(root, ()) or TEST_NAME.fullmatch(f"{name}.py"):
            continue
        if name in RUNNERS or name in STANDARD:
            yield f"is imported in place of {'what checks the work' if name in RUNNERS else 'the standard library'}"
        for other in (old.roots & new.roots) - {root}:
            goes_first = root in new.testing or other not in new.testing
            if goes_first and name in old.names[other] and name in new.names[other]:
                yield f"is imported in place of {other}/{name}" if other else f"is imported in place of {name}"


def _layout(paths: Collection[str]) -> _Layout:
    python = [path for path in paths if path.endswith(PYTHON)]
    packages = frozenset(path.rpartition("/")[0] for path in python if path.endswith(f"/{INIT}"))
    testing = frozenset(_above(path, packages) for path in python if TEST_NAME.fullmatch(path.rpartition("/")[2]))
    roots = frozenset({"", *testing, *(name for name in SOURCES if name not in packages)})
    return _Layout(
        packages=packages,
        holding=frozenset(folder for path in python for folder in _folders(path)),
        roots=roots,
        testing=testing - {"", *SOURCES},
        names=_importable(python, roots, packages),
    )


def _importable(python: Collection[str], roots: frozenset[str], packages: frozenset[str]) -> dict[str, frozenset[str]]:
    """Return the names of the modules and packages that are found from each root."""
    names: dict[str, set[str]] = {root: set() for root in roots}
    for path in python:
        for root, name in _names(path, roots, packages):
            names[root].add(name)
    return {root: frozenset(found) for root, found in names.items()}


def _names(path: str, roots: frozenset[str], packages: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield each root from which a file, or the package it is in, is found, and by what name."""
    inner, found = _module(path), True
    while found:
        root, _, name = inner.rpartition("/")
        if root in roots:
            yield root, name
        inner, found = root, root in packages


def _above(path: str, packages: frozenset[str]) -> str:
    """Return the first folder above a test that is no package: there runners begin to look for modules."""
    folder = path.rpartition("/")[0]
    while folder in packages:
        folder = folder.rpartition("/")[0]
    return folder


def _folders(path: str) -> Iterator[str]:
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _module(path: str) -> str:
    """Return a file's place without what comes after the name of its module."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.split('.')[0]}"


def _scripts(added: Collection[str], before: Collection[str], after: frozenset[str]) -> Iterator[Shadow]:
    there: dict[str, str] = {}
    for path in before:
        if path in after and path.endswith(SCRIPTS):
            there.setdefault(_imported(path), path)
    for path in added:
        other = there.get(_imported(path)) if path.endswith(SCRIPTS) and not path.endswith(".d.ts") else None
        if other is not None:
            yield Shadow(path, f"is imported in place of {other}")


def _imported(path: str) -> str:
    """Return what a script is imported as: without its type, and a folder for its index; of types, all of it."""
    if path.endswith(".d.ts"):
        return path
    stem = path.rpartition(".")[0]
    return stem.removesuffix("/index")
