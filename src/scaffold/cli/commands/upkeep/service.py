"""`service`: print a unit that continues interrupted runs after a reboot."""

import os
import sys

import click

from scaffold.cli.render.service_units import Service, launchd_plist, systemd_unit
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import PROGRAM, context_if_any, dirs, repository_here
from scaffold.git.repository import Repository
from scaffold.host.process.async_runner import run_async
from scaffold.run.context import repository_name, safe_file_name
from scaffold.views.store_reader import find_run, no_run_error

VARIABLES = ("PATH", "LANG", "SCAFFOLD_HOME")  # that the unit takes over if they are set; others may be secret


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@click.option("--for", "manager", type=click.Choice(["systemd", "launchd"]), help="Default: that of this machine.")
def service(run_name: str | None, manager: str | None) -> None:
    """Print a systemd user unit, or a launchd agent on macOS, that continues interrupted runs when you log in.

    It continues those of this repository, or only RUN. Keys of providers are not in it; it reads them from the file
    that it names. A run that you stopped or paused stays so.
    """
    unit = _service_unit(repository_here(), None if run_name is None else run_async(_run_id(run_name)))
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


async def _run_id(name: str) -> str:
    async with context_if_any() as context:
        if context is None:
            raise no_run_error()
        return find_run(context, name).id


def _service_unit(repository: Repository, run_id: str | None) -> Service:
    name = safe_file_name(repository_name(repository))
    return Service(
        name=f"scaffold-{name}" if run_id is None else f"scaffold-{name}-{run_id}",
        repository=repository.root,
        argv=[*PROGRAM, "resume", *([run_id] if run_id else []), "--interrupted"],
        environ={name: os.environ[name] for name in VARIABLES if name in os.environ},
        secrets=dirs().config / "service.env",
    )
