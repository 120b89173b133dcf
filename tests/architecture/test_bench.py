"""The benchmarks print rows that scripts can read, and `status` loads only what it needs."""

import subprocess  # noqa: TID251 - the benches are called as `make bench` calls them
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {
    "asyncio",
    "ssl",
    "yaml",
    "rich.console",
    "psycopg",
    "importlib.metadata",
    "scaffold.git.client.command_line",
    "scaffold.agent",
}
LOADED = """
import sys
from scaffold.cli.main import run_command, scaffold_group

code = run_command(scaffold_group, sys.argv[1:], prog="scaffold")
sys.stderr.write(" ".join(sys.modules))
sys.exit(code)
"""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a row in the public interface."""

    bench: str
    value: float
    unit: str
    reference: float
    ratio: float
    goal: float
    holds: bool


def _printed(*args: str) -> list[Row]:
    done = subprocess.run(
        [sys.executable, "bench/run.py", "--quick", *args], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [msgspec.json.decode(line, type=Row) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_benchmark_prints_rows_of_the_promised_shape() -> None:
    rows = _printed()
    assert len({row.bench for row in rows}) == len(rows) >= 10
    for row in rows:
        assert row.ratio == pytest.approx(row.value / row.reference, rel=0.01)
        assert row.holds == (row.ratio <= row.goal)


def test_a_benchmark_can_be_chosen_by_name() -> None:
    (row,) = _printed("plan-lint")
    assert row.bench.startswith("plan-lint-")


@pytest.mark.slow
def test_what_a_command_does_is_counted_by_cause() -> None:
    done = subprocess.run(
        [sys.executable, "bench/where.py", "--lines", "status", "landing"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    status, landing = [msgspec.json.decode(line)["causes"] for line in done.stdout.splitlines()]
    assert status["module"] > 100
    assert status["statement"] > 1
    assert landing["git"] == landing["process"] >= 1  # the queue starts nothing but git
    assert "git" not in status


def test_status_loads_neither_an_event_loop_nor_libraries_of_other_commands(tmp_path: Path) -> None:
    """Twelve times a bare Python is soon used up: an event loop alone costs four of them."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    done = subprocess.run(
        [sys.executable, "-c", LOADED, "status", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert "scaffold.store.database" in loaded
    assert loaded & HEAVY == set()
