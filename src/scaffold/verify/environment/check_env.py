"""Build the environment variables of checks: the variables of commands, adjusted to the prepared environment."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from scaffold.core.proof.gates import CheckEnvironment
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.policy.secret.unreadable_files import secret_entry

PYTHON_PATH = "PYTHONPATH"
TOP_PLACEHOLDER = "{top}"
OTHER_INSTALLATIONS = ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV")
"""Variables of an activated environment; dropped if the checks have their own."""
FIXED_VARIABLES = {"PYTHONHASHSEED": "0"}
"""Makes runs reproducible: otherwise the iteration order of a set could decide a verdict."""


def check_environ(environment: CheckEnvironment | None, top: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of checks in the checkout at `top`.

    `environ` are the variables of commands, returned unchanged if `environment` is None.
    """
    if environment is None:
        return dict(environ)
    dropped = OTHER_INSTALLATIONS if environment.path else ()
    kept = {name: value for name, value in environ.items() if name not in dropped}
    first = program_folders(environment, top)
    own = {name: _fill_placeholder(value, top) for name, value in environment.variables.items()}
    if PYTHON_PATH in own and kept.get(PYTHON_PATH):
        own[PYTHON_PATH] += os.pathsep + kept[PYTHON_PATH]
    # The checkout's own programs come first: otherwise checks would use the tools of the user's shell.
    return kept | FIXED_VARIABLES | own | {"PATH": os.pathsep.join([*first, kept.get("PATH", os.defpath)])}


def program_folders(environment: CheckEnvironment, top: Path) -> tuple[str, ...]:
    """Return the folders with the programs of the environment itself, first on PATH in the checkout at `top`."""
    return tuple(_fill_placeholder(folder, top) for folder in environment.path)


def with_shown_folders(environment: CheckEnvironment | None, sandbox: SandboxSpec | None) -> SandboxSpec | None:
    """Return the sandbox with the folders and copied files readable that checks need; None for no sandbox.

    The user named these files, secrets among them, for copying.
    """
    if environment is None or sandbox is None:
        return sandbox
    folders = ((Path(folder), Path(folder).resolve()) for folder in environment.shown)
    # An agent could have replaced a folder by a link to anything else.
    shown = tuple(
        target
        for folder, target in folders
        if target == folder or (secret_entry(str(target)) is None and (target / "pyvenv.cfg").is_file())
    )
    zone = sandbox.confinement
    files = {zone.writable[0] / file.target for file in environment.files}
    hidden = tuple(path for path in zone.hidden if not files or path.parent.resolve() / path.name not in files)
    # in a hidden folder, only this file is shown
    within = (file for file in sorted(files) if any(file.is_relative_to(folder) for folder in hidden))
    confinement = structs.replace(zone, hidden=hidden, readable=(*zone.readable, *shown, *within))
    return structs.replace(sandbox, confinement=confinement)


def _fill_placeholder(text: str, top: Path) -> str:
    return text.replace(TOP_PLACEHOLDER, str(top))
