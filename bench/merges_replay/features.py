"""Land each two features of CooperBench's tasks without a model, and run the tests of both on what came of it."""

import itertools
import json
import os
import re
import subprocess  # noqa: TID251 - a bench starts the tests of others
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import Commit, TreeId
from scaffold.core.run_settings import Signature
from scaffold.git.client.command_line import Git
from scaffold.landing.conflicts.merge_ladder import Integration, TreeMerged, merge_candidate

NOBODY = Signature("Nobody", "nobody@example.org")
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Nobody"), ("EMAIL", "nobody@example.org"), ("DATE", "2026-01-01T00:00:00Z"))
}


class Pair(Struct, frozen=True, kw_only=True):
    """What became of two features of one task: how they were merged, and the tests that fail since."""

    task: str
    features: tuple[str, str]
    how: str
    """`git`, `ours` or `refused`; `queue` if the real command landed both."""
    why: str = ""
    failed: tuple[str, ...] = ()


class Task(Struct, frozen=True, kw_only=True):
    """A task of the data set: {feature: its commit}, made in a clone that shares the objects of another."""

    name: str
    folder: str
    clone: Path
    features: dict[str, Commit]


def tasks_in(data: Path, clones: dict[str, Path], folder: Path) -> Iterator[Task]:
    """Yield the tasks whose repository is among `clones` ({start of a folder's name: clone}), with their commits."""
    listed = _run("git", "ls-tree", "-r", "--name-only", "HEAD", "dataset", cwd=data).split()
    for place in sorted({path.rpartition("/")[0] for path in listed if path.endswith("/setup.sh")}):
        source = next((path for start, path in clones.items() if place.split("/")[1].startswith(start)), None)
        if source is None:
            continue
        clone = folder / place.replace("/", "-")
        _run("git", "clone", "-q", "--shared", "--no-checkout", str(source.resolve()), str(clone))
        found = re.search(r'BASE_COMMIT="(\w+)"', file_of(data, f"{place}/setup.sh"))
        base = found[1] if found else ""
        patches = [path for path in listed if path.startswith(f"{place}/") and path.endswith("/feature.patch")]
        made = {path.split("/")[-2]: _commit(clone, base, file_of(data, path)) for path in patches}
        yield Task(name=place.removeprefix("dataset/"), folder=place, clone=clone, features=made)


async def pairs_of(task: Task, data: Path, folder: Path) -> list[Pair]:
    """Merge each two features of a task, and test what could be merged."""
    git = Git(task.clone, environ=os.environ)
    integration = Integration(git=git, folder=folder, identity=NOBODY, is_union=lambda _: False)
    alone = {name: _failed_tests(task, data, commit, name) for name, commit in task.features.items()}
    found = []
    for pair in itertools.combinations(sorted(task.features), 2):
        merged = await merge_candidate(integration, tip=task.features[pair[0]], head=task.features[pair[1]])
        if not isinstance(merged, TreeMerged):
            why = "; ".join(each.detail for each in merged.told if each.status == "refused")
            found.append(Pair(task=task.name, features=pair, how="refused", why=why))
            continue
        failed = [test for name in pair for test in _failed_tests(task, data, merged.tree, name) - alone[name]]
        how = "ours" if merged.told else "git"
        found.append(Pair(task=task.name, features=pair, how=how, failed=tuple(sorted(failed))))
    return found


def tests_of(task: Task, data: Path) -> list[str]:
    """Return the files of tests that the task names; else their folder."""
    said = re.search(r"-m pytest ((?:tests/\S+ ?)+)", file_of(data, f"{task.folder}/run_tests.sh"))
    return said[1].split() if said else ["tests"]


def _failed_tests(task: Task, data: Path, tree: Commit | TreeId, feature: str) -> set[str]:
    with tempfile.TemporaryDirectory() as place:
        archive = subprocess.run(["git", "archive", tree], cwd=task.clone, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", place], input=archive, check=True)
        _run(
            "git",
            "apply",
            "--ignore-whitespace",
            "-",
            cwd=Path(place),
            text=file_of(data, f"{task.folder}/{feature}/tests.patch"),
        )
        files = tests_of(task, data)
        options = ("-q", "-p", "no:cacheprovider", "-W", "ignore", "-rfE", "--tb=no")
        environ = {**os.environ, "PYTHONPATH": f"{place}/src:{place}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        argv = [sys.executable, "-m", "pytest", *options, *files]
        done = subprocess.run(argv, cwd=place, env=environ, capture_output=True, text=True, check=False)
        failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE))
        return failed if done.returncode in {0, 1} else {*failed, f"pytest exited with {done.returncode}"}


def _commit(clone: Path, base: str, patch: str) -> Commit:
    environ = {**IDENTITY, "GIT_INDEX_FILE": str(clone / ".git" / "features")}
    _run("git", "read-tree", base, cwd=clone, environ=environ)
    _run("git", "apply", "--cached", "--ignore-whitespace", "-", cwd=clone, environ=environ, text=patch)
    tree = _run("git", "write-tree", cwd=clone, environ=environ).strip()
    return Commit(_run("git", "commit-tree", tree, "-p", base, "-m", "a feature", cwd=clone, environ=environ).strip())


def file_of(data: Path, path: str) -> str:
    """Return the text of a file of the data set."""
    return _run("git", "show", f"HEAD:{path}", cwd=data)


def _run(*argv: str, cwd: Path | None = None, environ: dict[str, str] | None = None, text: str | None = None) -> str:
    environ = {**os.environ, **(environ or {})}
    done = subprocess.run(argv, cwd=cwd, env=environ, input=text, check=True, capture_output=True, text=True)
    return done.stdout


def as_json(pair: Pair) -> str:
    """Return a line about a pair."""
    return json.dumps({name: getattr(pair, name) for name in pair.__struct_fields__ if getattr(pair, name)})
