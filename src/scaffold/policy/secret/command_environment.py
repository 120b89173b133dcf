"""The environment of commands: the user's, without secrets and misleading variables."""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from scaffold.host.atomic_files import write_atomic
from scaffold.host.child_environment import FIXED_VARIABLES, PROXIES, is_never_inherited, loads_code, program_path
from scaffold.policy.secret.redaction import SECRET_PATTERNS
from scaffold.policy.secret.sources import (
    CREDENTIAL_LOCATIONS,
    KEPT,
    PROVIDED,
    is_secret_setting,
    provided_names,
    secret_values,
)

AGENT_VARIABLES = ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "SSH_ASKPASS", "SUDO_ASKPASS")
"""Variables that lead to programs which use the user's keys for any caller."""
TOLD_VARIABLES = "left-out.txt"
"""The file in the cache that lists the variables of the latest notice to the user."""
GIT_IDENTITY = frozenset(f"GIT_{role}_{field}" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL"))
"""The author and committer. Git's other variables could make a command work on another repository."""
SHELL_STATE = (
    *("PWD", "OLDPWD", "_", "SHLVL", "BASH_ENV", "ENV", "PROMPT_COMMAND"),
    # With these, `cd`, `*`, `[`, `>` and `grep` have other meanings than in a new shell.
    *("BASHOPTS", "BASH_COMPAT", "BASH_XTRACEFD", "CDPATH", "EXECIGNORE", "GLOBIGNORE", "GREP_OPTIONS"),
    *("POSIXLY_CORRECT", "SHELLOPTS", "TMOUT"),
)
OUR_PREFIXES = ("SCAFFOLD_", "RALPH_")


def provided_for_commands(variables: Mapping[str, str]) -> dict[str, str]:
    """Return additions to the environment of our processes that pass these variables to commands unchanged.

    Their values count as secrets, whatever they look like.
    """
    return {**kept_for_commands(variables), PROVIDED: ",".join(variables)}


def command_environment(
    environ: Mapping[str, str], extra: Mapping[str, str] | None = None, *, names: Iterable[str] = ()
) -> dict[str, str]:
    """Return the environment of a command: the user's without secrets, overridden by `extra`.

    `names` are those that the user wants to pass although they look like secrets.
    """
    # What our own processes have under another name, commands get under its own.
    environ = {**environ, **{name.removeprefix(KEPT): environ[name] for name in environ if name.startswith(KEPT)}}
    left_out = set(secret_variables(environ, names))
    kept = {name: value for name, value in environ.items() if name not in left_out and not _is_misleading(name, value)}
    return kept | FIXED_VARIABLES | {"PATH": program_path(environ)} | dict(extra or {})


def kept_for_commands(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of one of our own processes that starts commands with these variables.

    Variables that would make it load code, perhaps an agent's, are renamed there; its commands get the old names.
    """
    return {f"{KEPT}{name}" if _changes_our_code(name) else name: value for name, value in variables.items()}


def _changes_our_code(name: str) -> bool:
    return loads_code(name) or (name.startswith("PYTHON") and name not in FIXED_VARIABLES)


def secret_variables(environ: Mapping[str, str], names: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the sorted names of the variables that commands do not get because they hold or lead to secrets."""
    wanted = {name for name in (*names, *provided_names(environ)) if not is_never_inherited(name)}
    return tuple(
        sorted(
            name
            for name, value in environ.items()
            if value and name not in wanted and not _is_misleading(name, value) and _is_secret(name, value)
        )
    )


def left_out_notice(environ: Mapping[str, str], names: Iterable[str] = (), *, told: Path) -> str | None:
    """Return one line about the variables that commands do not get; None if they get all, or were told before.

    The file `told` remembers the names that were said last.
    """
    left_out = ", ".join(secret_variables(environ, names))
    try:
        before = told.read_text("utf-8") if told.exists() else ""
        if left_out != before:
            write_atomic(told, left_out.encode(errors="replace"))
    except OSError:
        before = ""
    if not left_out or left_out == before:
        return None
    return f"commands do not get {left_out}; `scaffold config environment NAME,...` passes variables on"


def relocated(variables: Mapping[str, str], top: Path, checkout: Path, *, fixed: Collection[str]) -> dict[str, str]:
    """Return the variables with paths in the user's checkout `top` replaced by those that exist in `checkout`.

    Those named in `fixed` stay.
    """
    inside = re.compile(rf"(?<![^:;,=\s]){re.escape(str(top))}(?P<rest>/[^:;,\s]*|(?=[:;,\s]|$))")

    def moved(found: re.Match[str]) -> str:
        there = f"{checkout}{found['rest']}"
        return there if os.path.lexists(there) else found[0]

    return {name: value if name in fixed else inside.sub(moved, value) for name, value in variables.items()}


def _is_misleading(name: str, value: str) -> bool:
    # These belong to the user's shell or to us, or make a command work on something else.
    if name in SHELL_STATE or name.startswith(OUR_PREFIXES) or (is_never_inherited(name) and name not in GIT_IDENTITY):
        return True
    return name == "VIRTUAL_ENV" and not os.path.lexists(Path(value, "bin"))


def _is_secret(name: str, value: str) -> bool:
    if name in AGENT_VARIABLES or name in CREDENTIAL_LOCATIONS or is_secret_setting(name, value):
        return True
    if name.casefold() in PROXIES:
        return False
    return bool(secret_values({name: value})) or any(
        shape.literal in value and next(shape.found_in(value), None) for shape in SECRET_PATTERNS
    )
