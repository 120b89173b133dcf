"""`demo`: a whole run on a sample project, with model replies from a cassette."""

import os
import sys
import tempfile
from contextlib import closing
from importlib.resources import as_file, files
from pathlib import Path

import click

import scaffold.cli
from scaffold.agent.model_access import resolve_model
from scaffold.cli.commands.options import quiet_option
from scaffold.cli.execution.foreground import run_in_foreground
from scaffold.cli.wiring import open_context
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import count_of
from scaffold.core.run_settings import (
    ModelSettings,
    PermissionSettings,
    RunIdentity,
    RunSettings,
    SandboxSettings,
    Signature,
)
from scaffold.git.client.command_line import Git
from scaffold.host.process.async_runner import run_async
from scaffold.orchestrator.user_control.open_run import RunInput, start_run
from scaffold.plan.text.file_format import read_plan
from scaffold.run.context import RunContext

DEMO_AUTHOR = Signature("Scaffold Demo", "demo@scaffold.invalid")
SUFFIX = ".txt"  # so that no tool mistakes the sample's files for source files of this package


@click.command()
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="A new folder for the sample project.")
@click.option("--json", "as_json", is_flag=True, help="One JSON event per line; the last is the result.")
@quiet_option
def demo(folder: Path | None, *, as_json: bool, quiet: bool) -> int:
    """Watch a whole run on a sample project: real worktrees, tests and landings, without an API key."""
    place = folder if folder is not None else Path(tempfile.mkdtemp(prefix="scaffold-demo-"))
    if place.exists() and any(place.iterdir()):
        raise UsageError(f"{place} is not empty", "Choose a folder that does not exist yet.")
    place = place.absolute()
    # The sample's checks call `python`, which the machine may not have: this interpreter comes first on PATH.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    os.environ["VIRTUAL_ENV"] = sys.prefix  # our folder stays on PATH only if it is activated

    async def run_demo() -> int:
        with as_file(files(scaffold.cli) / "demo_files") as material:
            await write_sample(material / "project", place)
            context = await open_context(place, create=True)
            with closing(context.store):
                return await _start_demo_run(context, material, place, as_json=as_json, quiet=quiet)

    return run_async(run_demo())


async def write_sample(material: Path, place: Path) -> None:
    """Write the sample project to `place` and commit it."""
    for source in _sample_files(material):
        target = place / source.relative_to(material).with_name(source.name.removesuffix(SUFFIX))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    git = Git(place, environ=os.environ)
    # A new machine may have no git identity, and git refuses to commit without one.
    people = {"GIT_AUTHOR_NAME": DEMO_AUTHOR.name, "GIT_AUTHOR_EMAIL": DEMO_AUTHOR.email}
    people |= {"GIT_COMMITTER_NAME": DEMO_AUTHOR.name, "GIT_COMMITTER_EMAIL": DEMO_AUTHOR.email}
    await git("init", "--quiet", "--initial-branch=main")
    await git("add", "--all")
    await git("commit", "--quiet", "--message", "A rate limiter, with one test that fails", env=people)


def _sample_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob(f"*{SUFFIX}")) if path.is_file()]


async def _start_demo_run(context: RunContext, material: Path, place: Path, *, as_json: bool, quiet: bool) -> int:
    text = (material / "plan.yaml").read_text()
    plan, _ = read_plan(text, name="plan.yaml")
    # In the sample's `.git`, so that the run can be resumed later.
    cassette = place / ".git" / "scaffold" / "demo-cassette.yaml"
    cassette.parent.mkdir(parents=True, exist_ok=True)
    cassette.write_bytes((material / "cassette.yaml").read_bytes())
    model, digest = resolve_model(f"cassette:{cassette}")
    settings = RunSettings(
        identity=RunIdentity(repository=str(place), author=DEMO_AUTHOR, committer=DEMO_AUTHOR),
        model=ModelSettings(name=model, cassette_hash=digest),
        # The sample and the replies are known: no approval is needed, sandbox or not.
        sandbox=SandboxSettings(unconfined=True),
        permissions=PermissionSettings(yolo=True),
    )
    run = await start_run(context, RunInput(request="the demo's plan", source=text, plan=plan), settings)
    if not quiet:
        click.echo(f"The sample project is in {place}; one of its tests fails.", err=True)
        goals = count_of(len(plan.goals), "goal")
        click.echo(f"The plan has {count_of(len(plan.actions), 'action')} in {goals}.\n", err=True)
    return await run_in_foreground(context, run.id, as_json=as_json, quiet=quiet)
