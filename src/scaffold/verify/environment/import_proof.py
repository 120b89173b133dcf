"""Prove that checks load the checkout's code, and ask which names installed distributions take.

An interpreter with the user's editable installation would test the wrong code in a worktree, and pass. A module of the
work that takes the name of an installed one would be imported in its place, by tests and by the runner.
"""

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct, structs

from scaffold.core.printable_text import join_limited
from scaffold.core.proof.gates import CheckEnvironment
from scaffold.git import commits
from scaffold.host.child_environment import PYTHON_ALIAS
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.plan.text.bounded import read_json
from scaffold.policy.secret.home import SHOW, hidden_path
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.contract.check_runs import DETAIL_CHARS, Tree
from scaffold.verify.environment.check_env import TOP_PLACEHOLDER, check_environ
from scaffold.verify.environment.dependencies import NODE_MODULES

LISTING_SCRIPT = """\
import sys
sys.path[:] = sys.path[sys.path[0] == "":]
import json, os, site
from importlib.machinery import all_suffixes
MOST, DEEPEST = 5000, 4
suffixes = tuple(all_suffixes())
def listed(folder):
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
def names(folder, prefix, depth):
    for entry in listed(folder):
        name, path = entry.partition(".")[0], os.path.join(folder, entry)
        if not name.isidentifier() or name.startswith("__"):
            continue
        if entry == name and depth < DEEPEST and os.path.isdir(path):
            if any(each.startswith("__init__.") and each.endswith(suffixes) for each in listed(path)):
                yield prefix + name
                continue
            inside = list(names(path, prefix + name + ".", depth + 1))
            yield from [prefix + name] * bool(inside) + inside
        elif entry.endswith(suffixes):
            yield prefix + name
folders = list(getattr(site, "getsitepackages", list)()) + [site.getusersitepackages()]
folders = [each for each in sys.path if each in folders or each.endswith((".egg", "site-packages", "dist-packages"))]
found = sorted({name for folder in folders for name in names(folder, "", 0)})
print("\\n" + json.dumps(found[:MOST]))
"""
"""Prints the importable names in the folders of installed distributions; a package without `__init__` with its parts.

Reads folders only: metadata names what a distribution meant to install, not what an import finds.
"""
TIMEOUT_S = 60.0
PROBE_SCRIPT = """\
import sys
asked_of = sys.path[sys.path[0] == "" :]  # a program that is started from elsewhere does not look here
sys.path[:] = [folder for folder in asked_of if folder.startswith(sys.base_prefix)]
import importlib.machinery, importlib.util, json, os, sysconfig
sys.path[:] = asked_of
homes = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
homes.append(os.path.join(homes[1], "lib-dynload"))
def is_standard(name):
    if hasattr(sys, "stdlib_module_names"):
        return name in sys.stdlib_module_names
    found = importlib.machinery.PathFinder.find_spec(name, homes)
    return name in sys.builtin_module_names or found is not None
names = json.loads(sys.stdin.read())
def places(name):
    try:
        spec = importlib.util.find_spec(name)
    except (AttributeError, ImportError, ValueError):
        spec = None
    if spec is None:
        return []
    return [spec.origin] if spec.has_location else list(spec.submodule_search_locations or [])
asked = [name for name in names if not is_standard(name.partition(".")[0])]
print("\\n" + json.dumps({name: places(name) for name in asked}))
"""
"""Prints where Python would load each name from; imports only the parent packages of dotted names.

It runs on the project's Python, 3.6 or newer; `sys.stdlib_module_names` came with 3.10.
"""
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
"""Files whose presence marks a folder as a Python project."""
SRC_FOLDER = "src"
NOT_IMPORTABLE = frozenset(
    {"setup", "conftest", "noxfile", "fabfile", "tasks", "test", "tests", "testing", "docs", "doc"}
)
"""Names at the top of a repository that are never imported from elsewhere."""


class ForeignModule(Struct, frozen=True):
    """A module of the checkout that would be loaded from elsewhere (`location`) or is not found (None)."""

    name: str
    location: str | None


async def prove_imports(environment: CheckEnvironment, tree: Tree) -> CheckEnvironment | NotReady:
    """Return an environment that loads all code of the checkout from there, or NotReady.

    If modules are loaded from elsewhere, or those below `src` are not found, source folders are put first. The top of
    the checkout is not added for modules that are merely not found: its names could shadow others, and a program
    started at the top finds them anyway.

    The tree must use the variables of `environment`, and its checkout must be provisioned.
    """
    paths = frozenset(await commits.listed_paths(tree.git, tree.commit))
    if foreign := sorted(_foreign_links(tree.git.cwd, paths), key=lambda module: module.name):
        return _not_ready(foreign)
    modules = python_modules(paths)
    found = await _foreign_modules(environment, tree, modules)
    if isinstance(found, NotReady):
        return found
    roots = {modules[module.name] for module in found if module.location or modules[module.name]}
    if not roots:
        return environment
    adjusted = with_sources_first(environment, roots)
    variables = check_environ(adjusted, tree.git.cwd, tree.environ)
    # Probe again: an editable install with an import hook comes before PYTHONPATH, and cannot be overridden.
    found = await _foreign_modules(adjusted, structs.replace(tree, environ=variables), modules)
    if isinstance(found, NotReady):
        return found
    elsewhere = [module for module in found if module.location]
    return _not_ready(elsewhere) if elsewhere else adjusted


async def _foreign_modules(
    environment: CheckEnvironment, tree: Tree, modules: Mapping[str, str]
) -> list[ForeignModule] | NotReady:
    """Return the modules that some Python on PATH would not load from the checkout, sorted by name."""
    found: dict[str, ForeignModule] = {}
    for program in interpreters(tree.environ) if modules else ():
        places = await probe_imports(program, tree, tuple(modules))
        if isinstance(places, NotReady):
            return places
        for name, origins in places.items():
            for origin in origins or (None,):
                if origin is None or not _is_source(environment, tree.git.cwd, Path(origin)):
                    found[name] = ForeignModule(name, origin)
    return sorted(found.values(), key=lambda module: module.name)


async def probe_imports(program: str, tree: Tree, names: tuple[str, ...]) -> Mapping[str, tuple[str, ...]] | NotReady:
    """Return where this Python would load each name from, nowhere but for names of its own; NotReady if it fails."""
    finished = await run_command(
        [program, "-c", PROBE_SCRIPT],
        cwd=tree.git.cwd,
        env=tree.environ,
        timeout_s=TIMEOUT_S,
        stdin=msgspec.json.encode(names),
        containment=Containment(sandbox=tree.sandbox),
    )
    try:
        # Only the last line: code that runs at the interpreter's start may print before it.
        return msgspec.json.decode(finished.stdout.strip().rpartition(b"\n")[2], type=dict[str, tuple[str, ...]])
    except msgspec.MsgspecError:
        if tree.sandbox is not None and (hidden := hidden_path(program, tree.sandbox.confinement)):
            return NotReady(
                what=f"{program} leads into {hidden}, which the sandbox hides from checks", fix=SHOW.format(hidden)
            )
        printed = tree.clean((finished.stdout + finished.stderr).decode(errors="replace").strip())
        return NotReady(
            what=f"{program} could not report where it imports this repository's code from",
            fix=f"run `{program} -c 'import site'` and fix the error it prints",
            detail=printed[-DETAIL_CHARS:],
        )


def interpreters(environ: Mapping[str, str]) -> list[str]:
    """Return the programs that `python3` and `python` start, each interpreter once."""
    path = environ.get("PATH", os.defpath)
    found = [location for name in ("python3", "python") if (location := shutil.which(name, path=path))]
    # `python` and `python3` in one folder are the same interpreter, and our alias is none.
    places = {Path(location).parent.resolve(): location for location in found}
    return [location for place, location in places.items() if place != PYTHON_ALIAS]


def _is_source(environment: CheckEnvironment, top: Path, location: Path) -> bool:
    real, root = location.resolve(), top.resolve()
    if not real.is_relative_to(root):
        return False
    return not any(real.is_relative_to(root / copied.target) for copied in environment.copies)


def with_sources_first(environment: CheckEnvironment, roots: set[str]) -> CheckEnvironment:
    """Return the environment with these folders of the checkout ahead of installed packages."""
    value = os.pathsep.join(
        f"{TOP_PLACEHOLDER}/{root}" if root else TOP_PLACEHOLDER for root in sorted(roots, reverse=True)
    )
    variables = {**environment.variables, "PYTHONPATH": value}
    adjusted = structs.replace(environment, variables=variables)
    return structs.replace(adjusted, fingerprint=f"{environment.fingerprint}-sources")


def _foreign_links(top: Path, paths: frozenset[str]) -> Iterator[ForeignModule]:
    root = top.resolve()
    for name in _own_packages(top, paths):
        link = top / NODE_MODULES / name
        location = link.resolve()
        if link.is_symlink() and not location.is_relative_to(root):
            yield ForeignModule(name, str(location))


def _own_packages(top: Path, paths: frozenset[str]) -> Iterator[str]:
    for path in sorted(paths):
        if path.rpartition("/")[2] == "package.json":
            try:
                manifest = read_json((top / path).read_text("utf-8"))
            except (OSError, ValueError):
                continue
            name = manifest.get("name") if isinstance(manifest, dict) else None
            if isinstance(name, str) and ".." not in name.split("/") and not name.startswith("/"):
                yield name


def _not_ready(foreign: list[ForeignModule]) -> NotReady:
    first, named = foreign[0], join_limited([each.name for each in foreign], 1)
    return NotReady(
        what=f"checks would load {named} from {first.location}, not from the checkout being checked",
        fix="let Scaffold install the dependencies of each checkout (`setup` in the configuration, `scaffold trust`), "
        "or remove that installation",
        detail="\n".join(f"{module.name}: {module.location}" for module in foreign),
    )


def python_modules(paths: Collection[str]) -> Mapping[str, str]:
    """Return the source folder of each importable name, `""` for the top; namespace packages by their contents."""
    homes = {"", *(path.rpartition("/")[0] for path in paths if PurePosixPath(path).name in PROJECT_FILES)}
    roots = sorted({*homes, *(_join_path(home, SRC_FOLDER) for home in homes)}, key=len, reverse=True)
    found: dict[str, str] = {}
    for path in sorted(paths):
        root = next((root for root in roots if not root or path.startswith(f"{root}/")), None)
        if root is not None and path.endswith(".py"):
            inner = path.removeprefix(f"{root}/" if root else "")
            for name in _import_names(inner, paths, root, spaces=PurePosixPath(root).name == SRC_FOLDER):
                found.setdefault(name, root)
    return found


def _import_names(inner: str, paths: Collection[str], root: str, *, spaces: bool) -> Iterator[str]:
    """Yield the import name that the file `inner` of a root provides, if any; `spaces` allows namespace packages."""
    parts = PurePosixPath(inner).parts
    if not all(part.isidentifier() for part in (*parts[:-1], parts[-1].removesuffix(".py"))):
        return
    if len(parts) == 1 and parts[0] != "__init__.py":
        names = [parts[0].removesuffix(".py")]
    elif parts[-1] == "__init__.py" and len(parts) > 1:
        names = list(parts[:-1])
    else:
        return
    # The name of an enclosing package covers everything in it.
    around = (_join_path(root, "/".join(names[:length])) for length in range(1, len(names)))
    if len(names) > 1 and (not spaces or any(f"{folder}/__init__.py" in paths for folder in around)):
        return
    if spaces or not (names[0] in NOT_IMPORTABLE or names[0].startswith("test_")):
        yield ".".join(names)


def _join_path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


async def with_installed_names(environment: CheckEnvironment, tree: Tree) -> CheckEnvironment:
    """Return the environment with the installed names that each Python on PATH reports; none for a tree without Python.

    A Python that fails to report counts as without any. The tree must use the variables of `environment`, and its
    checkout must be provisioned.
    """
    found: set[str] = set()
    paths = await commits.listed_paths(tree.git, tree.commit)
    for program in interpreters(tree.environ) if any(path.endswith(".py") for path in paths) else ():
        found.update(await _list_installed(program, tree))
    # Some distributions install their tests and documents by mistake; no program imports these.
    kept = (name for name in found if name.partition(".")[0] not in NOT_IMPORTABLE)
    return structs.replace(environment, installed=tuple(sorted(kept)))


async def _list_installed(program: str, tree: Tree) -> tuple[str, ...]:
    finished = await run_command(
        [program, "-c", LISTING_SCRIPT],
        cwd=tree.git.cwd,
        env=tree.environ,
        timeout_s=TIMEOUT_S,
        containment=Containment(sandbox=tree.sandbox),
    )
    try:
        # Only the last line: code that runs at the interpreter's start may print before it.
        return msgspec.json.decode(finished.stdout.strip().rpartition(b"\n")[2], type=tuple[str, ...])
    except msgspec.MsgspecError:
        return ()
