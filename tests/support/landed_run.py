"""A run of three actions that has completed, made once and copied for each test that takes its work."""

import hashlib
import os
import shutil
from functools import cache
from pathlib import Path

from scaffold.host.atomic_files import delete_path
from support.samples import folder_until_exit, sign_state
from support.scenario import Scenario, action, plan_of, write


@cache
def _sample() -> Path:
    folder = folder_until_exit()
    made = Scenario(folder)
    (made.repo / ".gitignore").write_text("*.cache\n")
    made.commit("ignore caches")
    made.plan(
        plan_of(
            store=[
                action("model", effects=["model_works"], check="test -f model.py"),
                action("api", needs=["model_works"], effects=["api_works"], check="grep -q model api.py"),
            ],
            docs=[action("guide", effects=["guide_written"], check="test -s GUIDE.md")],
        )
    )
    made.cassette(
        model=[write("model.py", "VALUE = 1\n")],
        api=[write("api.py", "import model\n")],
        guide=[write("GUIDE.md", "# Guide\n")],
    )
    done = made.run("--yes")
    assert done.returncode == 0, done.stderr
    return folder


def landed_run(folder: Path) -> Scenario:
    """Return a copy of the repository after its run, in `folder`; `api` builds on `model`, `guide` on nothing."""
    folder.mkdir(exist_ok=True)
    made = Scenario(folder)
    delete_path(made.home)
    shutil.copytree(_sample() / "home", made.home, symlinks=True)
    delete_path(made.repo)
    shutil.copytree(_sample() / "repo", made.repo, symlinks=True)
    sign_state(made.repo / ".git" / "scaffold" / "state.db", home=made.home / "scaffold")
    made.git("update-index", "--refresh", "-q")
    return made


def checkout_bytes(folder: Path) -> dict[str, str]:
    """Return {path: hash} of every file in a checkout and of its index and HEAD; `.scaffold` is ours."""
    files = [each for each in folder.rglob("*") if each.is_file() and not {".git", ".scaffold"} & {*each.parts}]
    files += [path for path in (folder / ".git" / "index", folder / ".git" / "HEAD") if path.exists()]
    return {str(each.relative_to(folder)): hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


def tree(scenario: Scenario, commit: str) -> str:
    """Return the id of the tree of a commit."""
    return scenario.git("rev-parse", f"{commit}^{{tree}}").strip()


def session_branch(scenario: Scenario) -> str:
    """Return the session branch of the latest run."""
    return scenario.status()["run"]["session_branch"]


def stand_in(scenario: Scenario, name: str, text: str) -> None:
    """Put a program of our own on the PATH of the scenario's commands, before all others."""
    folder = scenario.home / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    if str(folder) not in scenario.environ["PATH"].split(os.pathsep):
        scenario.environ["PATH"] = os.pathsep.join([str(folder), scenario.environ["PATH"]])
