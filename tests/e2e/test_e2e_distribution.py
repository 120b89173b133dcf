"""The files of a release: complete, and installed on a machine that has Python and git and nothing of ours.

`make release` sets RELEASE_FILES to the folder with the files that it is about to offer; without it, they are built.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from builders import needs
from support.distribution import ROOT, build, findings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the sdist and the wheel."""
    if given := os.environ.get("RELEASE_FILES"):
        [sdist], [wheel] = Path(given).resolve().glob("*.tar.gz"), Path(given).resolve().glob("*.whl")
        return sdist, wheel
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment without this checkout and its .venv, and with a state of its own."""
    ours = Path(sys.prefix, "bin")
    path = [each for each in os.environ["PATH"].split(os.pathsep) if Path(each) != ours]
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"} and not name.startswith(("SCAFFOLD_", "COV_"))
    }
    return kept | {"PATH": os.pathsep.join(path), "SCAFFOLD_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}


def call(*argv: str | Path, cwd: Path, environ: Mapping[str, str]) -> str:
    """Run a command to its end, which has to be good; return its output."""
    done = subprocess.run(
        argv, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_a_release_contains_what_is_needed_and_nothing_else(files: tuple[Path, Path]) -> None:
    """The wheel has all files of the package, with prices, migrations, prompts and the demo, and no tests."""
    assert findings(*files) == []


def test_the_wheel_works_in_a_new_environment_with_the_locked_dependencies(
    files: tuple[Path, Path], environ: dict[str, str], tmp_path: Path
) -> None:
    """Installed on a bare machine, both commands start and the demo lands."""
    _, wheel = files
    call(sys.executable, "-m", "venv", "fresh", cwd=tmp_path, environ=environ)
    pip = [tmp_path / "fresh" / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    locked = ROOT / "requirements" / "run.txt"
    call(*pip, "--require-hashes", "-r", locked, cwd=tmp_path, environ=environ)
    call(*pip, "--no-deps", "--no-index", wheel, cwd=tmp_path, environ=environ)
    call(*pip[:-2], "check", cwd=tmp_path, environ=environ)
    programs = tmp_path / "fresh" / "bin"
    assert call(programs / "scaffold", "--version", cwd=tmp_path, environ=environ).split() == [
        *("scaffold,", "version"),
        wheel.name.split("-")[1],
    ]
    assert "Usage: ralph" in call(programs / "ralph", "--help", cwd=tmp_path, environ=environ)
    shown = call(programs / "scaffold", "demo", cwd=tmp_path, environ=environ)
    assert shown.splitlines()[-1] == snapshot("landed 7 actions, 7 facts with evidence")


@needs("uv")
def test_the_wheel_runs_without_being_installed(
    files: tuple[Path, Path], environ: dict[str, str], tmp_path: Path
) -> None:
    """`uvx --from FILE scaffold demo`."""
    uv = shutil.which("uv") or "uv"
    shown = call(uv, "tool", "run", "--from", files[1], "scaffold", "demo", cwd=tmp_path, environ=environ)
    assert shown.splitlines()[-1] == snapshot("landed 7 actions, 7 facts with evidence")


@needs("pipx")
def test_the_wheel_installs_with_pipx(files: tuple[Path, Path], environ: dict[str, str], tmp_path: Path) -> None:
    """`pipx install FILE` gives both commands."""
    folders = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    call("pipx", "install", files[1], cwd=tmp_path, environ=environ | folders)
    assert "Usage: scaffold" in call(tmp_path / "bin" / "scaffold", "--help", cwd=tmp_path, environ=environ)
    assert "Usage: ralph" in call(tmp_path / "bin" / "ralph", "--help", cwd=tmp_path, environ=environ)
