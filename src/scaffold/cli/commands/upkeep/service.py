"""`service`: print a unit that continues interrupted runs after a reboot."""

import os
import plistlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from msgspec import Struct

from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import PROGRAM, context_if_any, repository_here
from scaffold.core.errors import UsageError
from scaffold.host.process.async_runner import run_async
from scaffold.host.user_dirs import user_dirs
from scaffold.run.context import repository_name, safe_file_name
from scaffold.views.store_reader import find_run, no_run_error


class Service(Struct, frozen=True, kw_only=True):
    """What is started when the user logs in."""

    name: str
    """Of the unit, without an ending."""
    repository: Path
    argv: Sequence[str]
    environ: Mapping[str, str]
    secrets: Path
    """A file with lines `NAME=VALUE` for what must not be in the unit, such as keys; may be missing."""


VARIABLES = ("PATH", "LANG", "SCAFFOLD_HOME")  # that the unit takes over if they are set; others may be secret


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@click.option("--for", "manager", type=click.Choice(["systemd", "launchd"]), help="Default: that of this machine.")
def service(run_name: str | None, manager: str | None) -> None:
    """Print a systemd user unit, or a launchd agent on macOS, that continues interrupted runs when you log in.

    It continues those of this repository, or only RUN. Keys of providers are not in it; it reads them from the file
    that it names. A run that you stopped or paused stays so.
    """

    async def find_id() -> str:
        async with context_if_any() as context:
            if context is None:
                raise no_run_error()
            return find_run(context, run_name).id

    repository, run_id = repository_here(), None if run_name is None else run_async(find_id())
    name = safe_file_name(repository_name(repository))
    unit = Service(
        name=f"scaffold-{name}" if run_id is None else f"scaffold-{name}-{run_id}",
        repository=repository.root,
        argv=[*PROGRAM, "resume", *([run_id] if run_id else []), "--interrupted"],
        environ={name: os.environ[name] for name in VARIABLES if name in os.environ},
        secrets=user_dirs().config / "service.env",
    )
    if (manager or ("launchd" if sys.platform == "darwin" else "systemd")) == "launchd":
        click.echo(launchd_plist(unit), nl=False)
        place = f"~/Library/LaunchAgents/{unit.name}.plist"
        steps = [f"launchctl bootstrap gui/$(id -u) {place}"]
    else:
        click.echo(systemd_unit(unit), nl=False)
        place = f"~/.config/systemd/user/{unit.name}.service"
        steps = [f"systemctl --user enable {unit.name}", "loginctl enable-linger  # also at boot, before you log in"]
    more = "".join(f"\n  {step}" for step in steps)
    print_text(f"save it as {place}, put keys as NAME=VALUE lines in {unit.secrets}, then:{more}", err=True)


def systemd_unit(service: Service) -> str:
    """Return the text of a systemd user unit; raises UsageError if a path or value has a line break."""
    values = (str(service.repository), str(service.secrets), *service.argv, *service.environ.values())
    if any("\n" in value or "\r" in value for value in values):
        raise UsageError("a path or a variable contains a line break", "Move the repository, or change the variable.")
    # SIGKILL: a run that is asked to end is paused by that, and a paused run is not continued after the reboot.
    lines = [
        f"# ~/.config/systemd/user/{service.name}.service",
        "[Unit]",
        f"Description=Scaffold: continue the interrupted runs of {_escape_specifiers(str(service.repository))}",
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        "KillSignal=SIGKILL",
        f"WorkingDirectory={_escape_specifiers(str(service.repository))}",
        *(f"Environment={_systemd_quoted(f'{name}={value}')}" for name, value in service.environ.items()),
        f"EnvironmentFile=-{_escape_specifiers(str(service.secrets))}",
        f"ExecStart={' '.join(_systemd_quoted(word).replace('$', '$$') for word in service.argv)}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def launchd_plist(service: Service) -> str:
    """Return the text of a launchd property list, which reads the secrets by a shell."""
    read_secrets = 'set -a; test -f "$0" && . "$0"; set +a; exec "$@"'
    content = {
        "Label": service.name,
        "ProgramArguments": ["/bin/sh", "-c", read_secrets, str(service.secrets), *service.argv],
        "WorkingDirectory": str(service.repository),
        "EnvironmentVariables": dict(service.environ),
        "RunAtLoad": True,
        # The runs outlive the command that started them.
        "AbandonProcessGroup": True,
    }
    return plistlib.dumps(content, sort_keys=False).decode()


def _systemd_quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_escape_specifiers(escaped)}"'


def _escape_specifiers(text: str) -> str:
    return text.replace("%", "%%")
