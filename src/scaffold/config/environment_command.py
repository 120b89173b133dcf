"""`env.from`: variables for workers and checks from a user's command, such as a token from a vault."""

from collections.abc import Mapping
from pathlib import Path

from scaffold.config.schema.parsers import variable
from scaffold.core.errors import ScaffoldError
from scaffold.host.child_environment import loads_code, path_outside
from scaffold.host.process.command_runner import Containment, OutputCapture, run_command
from scaffold.policy.secret.command_environment import OUR_PREFIXES, provided_for_commands
from scaffold.policy.secret.sources import redactor_for

SETTING = "env.from"
TIMEOUT_S = 60.0
OUTPUT_BYTES = 1_000_000
ERROR_CHARS = 500
OUR_PLACES = (*OUR_PREFIXES, "XDG_")
"""Prefixes of variables that name the folders of our own processes."""
CHANGE = "Change or unset it: `scaffold config env.from --unset`."


async def environment_from(command: str, *, root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Run the command in `root` with the user's whole environment; return what to add to that of our processes.

    Each line of its output is `KEY=VALUE`; blank lines and those with `#` are ignored, as is `export` before a key.
    Workers and checks get the variables. A value of at least 8 characters is removed as a secret from all that is
    stored or shown; a shorter one is not, as it may be in any text. Raises ScaffoldError if the command fails, takes
    longer than a minute, or prints anything else; no message shows a value.
    """
    ended = await run_command(
        ["/bin/sh", "-c", command],
        cwd=root,
        env={**environ, "PATH": path_outside(environ, root)},
        timeout_s=TIMEOUT_S,
        output=OutputCapture(limit_bytes=OUTPUT_BYTES),
        containment=Containment(),
    )
    if ended.timed_out:
        raise ScaffoldError(f"the command of `{SETTING}` did not end within {TIMEOUT_S:g} s", CHANGE)
    if ended.exit_code != 0:
        how = f"exit code {ended.exit_code}" if ended.signal is None else f"signal {ended.signal}"
        said = redactor_for(environ).clean(ended.stderr.decode(errors="replace")).strip()[:ERROR_CHARS]
        raise ScaffoldError(f"the command of `{SETTING}` failed with {how}{': ' if said else ''}{said}", CHANGE)
    if ended.truncated:
        raise ScaffoldError(f"the command of `{SETTING}` printed more than {OUTPUT_BYTES:,} bytes", CHANGE)
    return provided_for_commands(_parse_output(ended.stdout))


def _parse_output(output: bytes) -> dict[str, str]:
    try:
        lines = output.decode().split("\n")
    except UnicodeDecodeError as error:
        raise ScaffoldError(f"the command of `{SETTING}` printed something that is not UTF-8", CHANGE) from error
    found = dict[str, str]()
    for number, line in enumerate(lines, 1):
        text = line.strip(" \t\r")
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.removeprefix("export ").lstrip().partition("=")
        if not equals or "\0" in value:
            raise ScaffoldError(f"line {number} of what `{SETTING}` printed is not KEY=VALUE", CHANGE)
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        try:
            variable(name)
        except ValueError as error:
            raise ScaffoldError(
                f"line {number} of what `{SETTING}` printed does not begin with a usable name", CHANGE
            ) from error
        if loads_code(name) or name.startswith(OUR_PLACES) or name in {"PATH", "HOME", "TMPDIR", "TEMP", "TMP"}:
            raise ScaffoldError(f"`{SETTING}` cannot set {name}", CHANGE)
        found[name] = value[1:-1] if quoted else value
    return found
