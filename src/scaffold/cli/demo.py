"""`demo`: a whole run on a sample project, with every reply of the model taken from a cassette."""

import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

import click

from scaffold.cli.drive import drive
from scaffold.cli.models import usable_model
from scaffold.cli.wiring import open_site
from scaffold.core.errors import UsageProblem
from scaffold.core.model import RunSettings, Signature
from scaffold.git.command import Git
from scaffold.git.repository import survey
from scaffold.host.loop import run_async
from scaffold.orchestrator.opening import open_run
from scaffold.plan.planfile import read_plan
from scaffold.worker.site import Site

SOMEBODY = Signature("Scaffold Demo", "demo@scaffold.invalid")
SUFFIX = ".txt"
"""The sample's files carry it, so that no tool takes them for a part of this program."""


@click.command()
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Where to put the sample; a new folder.")
@click.option("--json", "as_json", is_flag=True, help="One event a line; the last is the result.")
def demo(folder: Path | None, *, as_json: bool) -> int:
    """Watch a whole run on a sample project: real worktrees, real tests, real landings; no key, no server."""
    place = folder if folder is not None else Path(tempfile.mkdtemp(prefix="scaffold-demo-"))
    if place.exists() and any(place.iterdir()):
        raise UsageProblem(f"{place} is not empty", "Name a folder that does not exist yet.")
    return run_async(_demo(place.absolute(), as_json=as_json))


async def _demo(place: Path, *, as_json: bool) -> int:
    _prefer_our_python()
    with as_file(files("scaffold.cli") / "demo_files") as material:
        await lay_out(material / "project", place)
        site = await open_site(place, create=True)
        try:
            return await _run(site, material, place, as_json=as_json)
        finally:
            site.store.close()


def _prefer_our_python() -> None:
    """Put our own interpreter first on the path: the sample's checks call `python`, whichever the machine has."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


async def lay_out(material: Path, place: Path) -> None:
    """Write the sample project to `place` and commit it, as its user would have."""
    for source in _files(material):
        target = place / source.relative_to(material).with_name(source.name.removesuffix(SUFFIX))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    git = Git(place, environ=os.environ)
    people = {"GIT_AUTHOR_NAME": SOMEBODY.name, "GIT_AUTHOR_EMAIL": SOMEBODY.email}
    people |= {"GIT_COMMITTER_NAME": SOMEBODY.name, "GIT_COMMITTER_EMAIL": SOMEBODY.email}
    await git("init", "--quiet", "--initial-branch=main")
    await git("add", "--all")
    await git("commit", "--quiet", "--message", "A rate limiter, with one test that fails", env=people)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob(f"*{SUFFIX}")) if path.is_file())


async def _run(site: Site, material: Path, place: Path, *, as_json: bool) -> int:
    text = (material / "plan.yaml").read_text()
    plan, _ = read_plan(text, name="plan.yaml")
    model, digest = usable_model(f"cassette:{_kept(material / 'cassette.yaml', place)}")
    settings = RunSettings(
        repository=str(place),
        model=model,
        model_hash=digest,
        author=SOMEBODY,
        committer=SOMEBODY,
        yolo=True,  # whatever the machine offers, nobody is asked: the replies are known
    )
    where = await survey(site.repository)
    run = open_run(
        site.store,
        plan,
        request="the demo's plan",
        survey=where,
        settings=settings,
        source=text,
        now=site.clock.now(),
    )
    click.echo(f"A sample project lies in {place}; one of its tests fails.", err=True)
    click.echo(f"{len(plan.actions)} actions in {len(plan.goals)} goals are planned for it.\n", err=True)
    return await drive(site, run.id, as_json=as_json)


def _kept(cassette: Path, place: Path) -> Path:
    """Copy the cassette to where it outlives this command, so that the run can be resumed and read."""
    target = place / ".git" / "scaffold" / "demo-cassette.yaml"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(cassette.read_bytes())
    return target
