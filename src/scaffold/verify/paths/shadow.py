"""Find new files that would be imported instead of existing modules: the standard library's, a runner's or others."""

import posixpath
import sys
from collections.abc import Collection, Iterator

from msgspec import Struct

from scaffold.verify.paths.conventions import TEST_NAME, is_test

RUNNER_MODULES = frozenset(
    {
        *("pytest", "_pytest", "pluggy", "iniconfig", "py", "coverage", "nose", "nose2", "xdist", "hypothesis"),
        *("pytest_asyncio", "pytest_cov", "pytest_django", "pytest_mock", "pytest_timeout", "anyio", "mock", "pip"),
        *("setuptools", "pkg_resources", "mypy", "ruff", "flake8", "pyflakes", "pylint", "tox", "nox"),
        *("packaging", "pygments", "execnet"),
    }
)
"""Import names of tools that check code, and of their dependencies."""
# A folder `test` is common in repositories.
STDLIB_MODULES = sys.stdlib_module_names - {"test", "this", "antigravity", "idlelib", "turtledemo"}
SOURCE_FOLDERS = ("src", "lib", "python")
"""Top folders that usually contain packages and are import roots like the top itself."""
PYTHON_SUFFIXES = (".py", ".so", ".pyd")
SCRIPT_SUFFIXES = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
INIT_FILE = "__init__.py"


class Shadow(Struct, frozen=True):
    """A new file that is imported instead of something else."""

    path: str
    why: str
    """The end of a sentence that begins with the path."""
    certain: bool = False
    """Whether one of the two can never be imported, so that it cannot be intended."""


class _ImportLayout(Struct, frozen=True):
    """The importable modules of a tree and their import roots."""

    packages: frozenset[str]
    """Folders with an `__init__.py`."""
    holding: frozenset[str]
    """Folders with a Python file at any depth."""
    roots: frozenset[str]
    """Folders that are searched for modules; `""` is the top."""
    testing: frozenset[str]
    """The roots that test runners add because they contain tests."""
    names: dict[str, frozenset[str]]
    """Top-level module names by root."""


def find_shadows(
    added: Collection[str], before: Collection[str], after: Collection[str], installed: Collection[str] = ()
) -> Iterator[Shadow]:
    """Yield each of the `added` paths that shadows something.

    `before` and `after` are all paths without and with the change, `installed` the module names of distributions.
    """
    if any(path.endswith(PYTHON_SUFFIXES) for path in added):
        old, new = _import_layout(before), _import_layout(after)
        yield from _python_shadows(added, old, new, frozenset(after))
        yield from _installed_shadows(added, before, new.roots, frozenset(installed))
    if any(path.endswith(SCRIPT_SUFFIXES) for path in added):
        yield from _script_shadows(added, before, frozenset(after))
    if added:
        yield from _equal_but_for_case(added, _names_in(before), _names_in(after))


def _equal_but_for_case(added: Collection[str], before: frozenset[str], after: frozenset[str]) -> Iterator[Shadow]:
    """Yield the added paths that differ only in case from another path, or are in such a new folder.

    Data of tests may have such names on purpose.
    """
    wanted = {each: path for path in added if not is_test(path) for each in (path, *_folders_above(path))}
    new = {each.casefold(): each for each in wanted if each not in before}
    found = ((other, new.get(other.casefold(), other)) for other in after) if new else ()
    for other, each in sorted(pair for pair in found if pair[0] != pair[1]):
        yield Shadow(wanted[each], f"replaces {other} on case-insensitive file systems")


def _names_in(paths: Collection[str]) -> frozenset[str]:
    names = set(paths)
    for innermost in {path.rpartition("/")[0] for path in paths}:
        folder = innermost
        while folder and folder not in names:
            names.add(folder)
            folder = folder.rpartition("/")[0]
    return frozenset(names)


def _python_shadows(
    added: Collection[str], old: _ImportLayout, new: _ImportLayout, after: frozenset[str]
) -> Iterator[Shadow]:
    modules: dict[str, list[str]] = {}
    for path in after:
        if path.endswith(PYTHON_SUFFIXES):
            modules.setdefault(_module_path(path), []).append(path)
    for path in added:
        if not path.endswith(PYTHON_SUFFIXES):
            continue
        same_module = _same_module_shadow(path, new, modules)
        if same_module:
            yield same_module
        else:
            yield from (Shadow(path, why) for why in _shadow_reasons(path, old, new, after))
            yield from (Shadow(path, why) for why in _closing_reasons(path, old, new, after))


def _same_module_shadow(path: str, layout: _ImportLayout, modules: dict[str, list[str]]) -> Shadow | None:
    """Return the shadow of a new file with the module name of something else in its folder, or None."""
    folder, _, name = path.rpartition("/")
    module = folder if name == INIT_FILE else _module_path(path)
    if name != INIT_FILE and module in layout.holding:
        return Shadow(path, f"has the same name as the folder {module}/", certain=module in layout.packages)
    other = next((other for other in modules.get(module, ()) if other != path), None)
    return None if other is None else Shadow(path, f"has the same name as {other}", certain=True)


def _shadow_reasons(path: str, old: _ImportLayout, new: _ImportLayout, after: frozenset[str]) -> Iterator[str]:
    for root, name in _import_names(_module_path(path), new.roots, new.packages):
        # Another file of an existing package shadows nothing new.
        if name in old.names.get(root, ()) or TEST_NAME.fullmatch(f"{name}.py"):
            continue
        if name in RUNNER_MODULES or name in STDLIB_MODULES:
            shadowed = "a test tool" if name in RUNNER_MODULES else "the standard library"
            yield f"is imported instead of {shadowed}'s module `{name}`"
        for other in old.roots - {root}:
            # pytest puts folders of tests at the front of the import path.
            goes_first = root in new.testing or other not in new.testing
            if goes_first and name in old.names[other] and _still_there(other, name, new, after):
                yield f"is imported instead of {other}/{name}" if other else f"is imported instead of {name}"


def _closing_reasons(path: str, old: _ImportLayout, new: _ImportLayout, after: frozenset[str]) -> Iterator[str]:
    # With an `__init__.py`, a folder of tests is no longer an import root.
    folder, _, file = path.rpartition("/")
    closed = old.testing - new.roots if file == INIT_FILE else ()
    for root in (each for each in closed if each == folder or each.startswith(f"{folder}/")):
        for other in old.roots & new.roots:
            for name in sorted(old.names[root] & old.names[other]):
                if not TEST_NAME.fullmatch(f"{name}.py") and _still_there(root, name, new, after):
                    yield f"makes tests import {posixpath.join(other, name)} instead of {root}/{name}"


def _still_there(root: str, name: str, layout: _ImportLayout, after: frozenset[str]) -> bool:
    # The root counts even if it is no longer searched.
    if root in layout.roots:
        return name in layout.names[root]
    return f"{root}/{name}.py" in after or f"{root}/{name}/{INIT_FILE}" in after


def _installed_shadows(
    added: Collection[str], before: Collection[str], roots: frozenset[str], installed: frozenset[str]
) -> Iterator[Shadow]:
    python = [path for path in added if path.endswith(PYTHON_SUFFIXES)]
    # Names of known tools are reported anyway.
    known = installed - RUNNER_MODULES - STDLIB_MODULES
    found = {path: names for path in python if (names := known.intersection(_dotted_names(path, roots)))}
    # A name that a file of the repository had before shadows nothing new.
    others = (path for path in before if found and path.endswith(PYTHON_SUFFIXES))
    taken = {name for path in others for name in _dotted_names(path, roots)}
    for path, names in found.items():
        told = sorted(names - taken)
        yield from (Shadow(path, f"is imported instead of the installed module `{name}`") for name in told)


def _dotted_names(path: str, roots: frozenset[str]) -> Iterator[str]:
    """Yield the names under which a module is imported from each root above it, as `google.cloud` for a folder."""
    module = path.rpartition("/")[0] if path.endswith(f"/{INIT_FILE}") else _module_path(path)
    for root in roots:
        if module and (not root or module.startswith(f"{root}/")):
            yield module.removeprefix(f"{root}/" if root else "").replace("/", ".")


def _import_layout(paths: Collection[str]) -> _ImportLayout:
    # By folder: most of what is asked has one answer for all files of one.
    files: dict[str, list[str]] = {}
    for path in paths:
        if path.endswith(PYTHON_SUFFIXES):
            folder, _, name = path.rpartition("/")
            files.setdefault(folder, []).append(name)
    packages = frozenset(folder for folder, names in files.items() if folder and INIT_FILE in names)
    testing = frozenset(
        _import_root_above(folder, packages) for folder, names in files.items() if any(map(TEST_NAME.fullmatch, names))
    )
    roots = frozenset({"", *testing, *(name for name in SOURCE_FOLDERS if name not in packages)})
    found: dict[str, set[str]] = {root: set() for root in roots}
    for folder, names in files.items():
        if folder in roots:
            found[folder].update(map(_module_path, names))
        for root, name in _import_names(folder, roots, packages) if folder in packages else ():
            found[root].add(name)
    return _ImportLayout(
        packages=packages,
        holding=frozenset(above for folder in files for above in (folder, *_folders_above(folder)) if above),
        roots=roots,
        testing=testing - {"", *SOURCE_FOLDERS},
        names={root: frozenset(names) for root, names in found.items()},
    )


def _import_names(module: str, roots: frozenset[str], packages: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield (root, name) for each root from which a module, or a package that contains it, can be imported."""
    inner, found = module, True
    while found:
        root, _, name = inner.rpartition("/")
        if root in roots:
            yield root, name
        inner, found = root, root in packages


def _import_root_above(folder: str, packages: frozenset[str]) -> str:
    # Runners add the nearest folder above a test that is not a package to the import path.
    while folder in packages:
        folder = folder.rpartition("/")[0]
    return folder


def _folders_above(path: str) -> Iterator[str]:
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _module_path(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    # An extension module has more suffixes: `fast.cpython-311-x86_64-linux-gnu.so` is the module `fast`.
    return f"{folder}{slash}{name.split('.')[0]}"


def _script_shadows(added: Collection[str], before: Collection[str], after: frozenset[str]) -> Iterator[Shadow]:
    existing: dict[str, str] = {}
    for path in before:
        if path in after and path.endswith(SCRIPT_SUFFIXES):
            existing.setdefault(_import_path(path), path)
    for path in added:
        other = (
            existing.get(_import_path(path)) if path.endswith(SCRIPT_SUFFIXES) and not path.endswith(".d.ts") else None
        )
        if other is not None:
            yield Shadow(path, f"is imported instead of {other}")


def _import_path(path: str) -> str:
    """Return the path under which a script is imported: no suffix, no `/index`; a `.d.ts` file keeps its full path."""
    return path if path.endswith(".d.ts") else path.rpartition(".")[0].removesuffix("/index")
