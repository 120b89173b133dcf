"""The setup script says in one line what is missing, and removes nothing it cannot rebuild."""

import shutil
import subprocess  # noqa: TID251 - the set-up runs before there is any code of ours to run it with
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLD = "exit 1"
BARE = f'case $2 in *ensurepip*) exit 1 ;; *) exec "{sys.executable}" "$@" ;; esac'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create a folder, with a space in its name, with the setup script and the tools it calls, but no Python."""
    root = tmp_path / "a clone"
    (root / ".ci").mkdir(parents=True)
    (root / "bin").mkdir()
    shutil.copy(ROOT / ".ci" / "setup", root / ".ci")
    for tool in ("sh", "dirname", "rm", "cat"):
        (root / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    return root


def set_up(checkout: Path, **pythons: str) -> subprocess.CompletedProcess[str]:
    """Run the setup with nothing on PATH but its tools and these Pythons, each given as the body of a script."""
    for name, body in pythons.items():
        script = checkout / "bin" / name
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
    return subprocess.run(
        ["/bin/sh", checkout / ".ci" / "setup"],
        env={"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("pythons", [{}, {"python3": OLD, "python": OLD}], ids=["none", "old"])
def test_a_machine_without_a_suitable_python_gets_a_one_line_error(checkout: Path, pythons: dict[str, str]) -> None:
    answer = set_up(checkout, **pythons)
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert "Python 3.11" in line
    assert "python3-venv" in line


def test_a_python_without_venv_support_is_reported_with_the_package(checkout: Path) -> None:
    answer = set_up(checkout, python3=BARE)
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert f"python3.{sys.version_info.minor}-venv" in line


def test_a_moved_environment_is_rebuilt(checkout: Path) -> None:
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / ".ready").write_text("/somewhere/else\n")
    assert set_up(checkout).returncode == 1
    assert not (checkout / ".venv").exists()
