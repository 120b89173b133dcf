"""Ask the Python of the checks which module names its installed distributions take.

A module of the work with such a name would be imported in their place, by tests and by the runner.
"""

import msgspec
from msgspec import structs

from scaffold.core.proof.gates import CheckEnvironment
from scaffold.git import commits
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.environment.import_proof import NOT_IMPORTABLE, interpreters

TIMEOUT_S = 60.0
SCRIPT = """\
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


async def with_installed_names(environment: CheckEnvironment, tree: Tree) -> CheckEnvironment:
    """Return the environment with the names that each Python on PATH finds installed; none for a tree without Python.

    Nor are there any of a Python that cannot tell. The tree must use the variables of `environment`, and its checkout
    must be provisioned.
    """
    found: set[str] = set()
    paths = await commits.listed_paths(tree.git, tree.commit)
    for program in interpreters(tree.environ) if any(path.endswith(".py") for path in paths) else ():
        found.update(await _list_installed(program, tree))
    # Some distributions install their own tests and documents by mistake, which no program imports.
    kept = (name for name in found if name.partition(".")[0] not in NOT_IMPORTABLE)
    return structs.replace(environment, installed=tuple(sorted(kept)))


async def _list_installed(program: str, tree: Tree) -> tuple[str, ...]:
    finished = await run_command(
        [program, "-c", SCRIPT],
        cwd=tree.git.cwd,
        env=tree.environ,
        timeout_s=TIMEOUT_S,
        containment=Containment(sandbox=tree.sandbox),
    )
    try:
        # The last line only: code that runs at the interpreter's start may print before it.
        return msgspec.json.decode(finished.stdout.strip().rpartition(b"\n")[2], type=tuple[str, ...])
    except msgspec.MsgspecError:
        return ()
