"""The proof that checks of a checkout load its code: not the user's, not a copy that was installed some time ago.

A worktree whose interpreter knows the user's editable installation would test the wrong code, and pass.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from scaffold.core.gates import CheckEnvironment
from scaffold.core.legible import few
from scaffold.git import commit
from scaffold.host.process import run
from scaffold.verify.contract import DETAIL_CHARS, Tree
from scaffold.verify.environment.dependencies import MODULES
from scaffold.verify.environment.modules import python_modules
from scaffold.verify.environment.surroundings import TOP, check_environ
from scaffold.verify.readiness import NotReady

TIMEOUT_S = 60.0
ASK = """\
import sys
asked_of = sys.path[sys.path[0] == "" :]  # a program that is started from elsewhere does not look here
sys.path[:] = [folder for folder in asked_of if folder.startswith(sys.base_prefix)]
import importlib.util, json
sys.path[:] = asked_of
names = json.loads(sys.stdin.read())
def places(name):
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return []
    return [spec.origin] if spec.has_location else list(spec.submodule_search_locations or [])
asked = [name for name in names if name.partition(".")[0] not in sys.stdlib_module_names]
print("\\n" + json.dumps({name: places(name) for name in asked}))
"""
"""Says where each name would be loaded from; loads nothing but what a name's namespace needs."""


class Stray(Struct, frozen=True):
    """A name of the checkout that leads elsewhere, or nowhere."""

    name: str
    place: str | None


async def proven_inside(environment: CheckEnvironment, tree: Tree) -> CheckEnvironment | NotReady:
    """Return the environment with which all code of the checkout is loaded from there: this one, or one that mends it.

    That has folders of sources first. So it does for one whose code is found nowhere, as if it were not installed; but
    not for the top of the checkout, whose names might stand in for others: what is started there finds them.

    The tree's own environment must be that of `environment`, and it must be furnished.
    """
    paths = frozenset(await commit.listed_paths(tree.git, tree.commit))
    if strays := sorted(_linked_outside(tree.git.cwd, paths), key=lambda stray: stray.name):
        return _not_ready(strays)
    modules = python_modules(paths)
    found = await _strays(environment, tree, modules)
    if isinstance(found, NotReady):
        return found
    roots = {modules[stray.name] for stray in found if stray.place or modules[stray.name]}
    if not roots:
        return environment
    mended = _with_sources_first(environment, roots)
    surroundings = check_environ(mended, tree.git.cwd, tree.environ)
    found = await _strays(mended, structs.replace(tree, environ=surroundings), modules)
    if isinstance(found, NotReady):
        return found
    elsewhere = [stray for stray in found if stray.place]
    return _not_ready(elsewhere) if elsewhere else mended


async def _strays(environment: CheckEnvironment, tree: Tree, modules: Mapping[str, str]) -> list[Stray] | NotReady:
    """Ask each Python that checks may start."""
    found: dict[str, Stray] = {}
    for program in _interpreters(tree.environ) if modules else ():
        places = await _asked(program, tree, tuple(modules))
        if isinstance(places, NotReady):
            return places
        for name, origins in places.items():
            for origin in origins or (None,):
                if origin is None or not _is_source(environment, tree.git.cwd, Path(origin)):
                    found[name] = Stray(name, origin)
    return sorted(found.values(), key=lambda stray: stray.name)


async def _asked(program: str, tree: Tree, names: tuple[str, ...]) -> Mapping[str, tuple[str, ...]] | NotReady:
    finished = await run(
        [program, "-c", ASK],
        cwd=tree.git.cwd,
        env=tree.environ,
        timeout_s=TIMEOUT_S,
        stdin=msgspec.json.encode(names),
        leash=True,
        enclosure=tree.enclosure,
    )
    try:
        return msgspec.json.decode(finished.stdout.strip().rpartition(b"\n")[2], type=dict[str, tuple[str, ...]])
    except msgspec.MsgspecError:
        said = tree.clean((finished.stdout + finished.stderr).decode(errors="replace").strip())
        return NotReady(
            what=f"{program} cannot tell where it would import this repository's code from",
            fix=f"run `{program} -c 'import site'` and mend what it says",
            detail=said[-DETAIL_CHARS:],
        )


def _interpreters(environ: Mapping[str, str]) -> list[str]:
    path = environ.get("PATH", os.defpath)
    found = [place for name in ("python3", "python") if (place := shutil.which(name, path=path))]
    return list({Path(place).parent.resolve(): place for place in found}.values())


def _is_source(environment: CheckEnvironment, top: Path, place: Path) -> bool:
    """Whether a place is one of the checkout's own files: what was installed into it is a copy of other ones."""
    real, root = place.resolve(), top.resolve()
    if not real.is_relative_to(root):
        return False
    return not any(real.is_relative_to(root / copied.target) for copied in environment.copies)


def _with_sources_first(environment: CheckEnvironment, roots: set[str]) -> CheckEnvironment:
    """Return the environment with these folders of the checkout before all that is installed."""
    value = os.pathsep.join(f"{TOP}/{root}" if root else TOP for root in sorted(roots, reverse=True))
    variables = {**environment.variables, "PYTHONPATH": value}
    mended = structs.replace(environment, variables=variables)
    return structs.replace(mended, fingerprint=_marked(environment.fingerprint))


def _marked(fingerprint: str) -> str:
    """Return the fingerprint of the same environment with sources first: other code may be found there."""
    return f"{fingerprint}-sources"


def _linked_outside(top: Path, paths: frozenset[str]) -> Iterator[Stray]:
    """Yield the Node packages of the checkout that a link among the dependencies leads elsewhere for."""
    root = top.resolve()
    for name in _own_packages(top, paths):
        link = top / MODULES / name
        place = link.resolve()
        if link.is_symlink() and not place.is_relative_to(root):
            yield Stray(name, str(place))


def _own_packages(top: Path, paths: frozenset[str]) -> Iterator[str]:
    for path in sorted(paths):
        if path.rpartition("/")[2] == "package.json":
            try:
                manifest = msgspec.json.decode((top / path).read_bytes())
            except (OSError, msgspec.MsgspecError):
                continue
            name = manifest.get("name") if isinstance(manifest, dict) else None
            if isinstance(name, str) and ".." not in name.split("/") and not name.startswith("/"):
                yield name


def _not_ready(strays: list[Stray]) -> NotReady:
    first, named = strays[0], few([each.name for each in strays], 1)
    return NotReady(
        what=f"checks would load {named} from {first.place}, not from the code they are to judge",
        fix="have Scaffold install what each checkout needs, with `setup` in the configuration and `scaffold trust`, "
        "or remove that installation",
        detail="\n".join(f"{stray.name}: {stray.place}" for stray in strays),
    )
