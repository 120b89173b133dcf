"""The lanes of tests: slow suites have their packages, failures are repeated alone, and a stopped night goes on."""

import os
import subprocess  # noqa: TID251 - runs of pytest are judged from outside
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.nightly import carry_out, commands, row
from support.slow_lane import AT_A_TIME, EVERYWHERE, SUITES, by_turns, chosen, is_among, suites_of

ROOT = Path(__file__).parents[2]
PROJECT = {
    "pytest.ini": "[pytest]\nmarkers = slow: x\n",
    "conftest.py": """
from support.second_try import SecondTry
from support.slow_lane import SlowLane

def pytest_configure(config):
    if config.getoption("numprocesses"):
        config.pluginmanager.register(SecondTry(config))
    if (minutes := config.getoption("minutes")) is not None:
        config.pluginmanager.register(SlowLane(config, minutes))

def pytest_addoption(parser):
    parser.addoption("--minutes", type=float)
""",
    "test_planted.py": """
import os
import pytest

@pytest.mark.parametrize("number", range(int(os.environ["FLAKY"])))
def test_flaky(number):
    assert "PYTEST_XDIST_WORKER" not in os.environ

@pytest.mark.parametrize("number", range(int(os.environ["WRONG"])))
def test_wrong(number):
    assert not number + 1

def test_right():
    pass
""",
}


def pytest_in(folder: Path, *options: str, flaky: int = 0, wrong: int = 0) -> tuple[int, str]:
    """Run pytest on the planted tests; return its exit code and output."""
    for name, text in PROJECT.items():
        (folder / name).write_text(text)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ = inherited | {"PYTHONPATH": str(ROOT / "tests"), "FLAKY": str(flaky), "WRONG": str(wrong)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def slow_files() -> list[str]:
    tests = ROOT / "tests"
    paths = [path for path in tests.rglob("test_*.py") if "mark.slow" in path.read_text()]
    return sorted(path.relative_to(tests).as_posix() for path in paths)


def test_each_package_names_its_slow_suites() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "scaffold").glob("*/__init__.py")}
    assert packages == SUITES.keys()


def test_each_slow_suite_is_named_and_each_name_is_one() -> None:
    patterns, files = [*suites_of(SUITES), EVERYWHERE], slow_files()
    assert [path for path in files if not is_among(path, patterns)] == []
    assert [pattern for pattern in patterns if not any(is_among(path, [pattern]) for path in files)] == []


def test_each_slow_suite_has_its_night() -> None:
    words = " ".join(commands().values()).split()
    folders = [word for word in words if (ROOT / word).is_dir()]
    named = {name.removeprefix("tests/") for name in words}
    left = [name for name in slow_files() if name not in named and not f"tests/{name}".startswith(tuple(folders))]
    assert left == []


def test_files_take_turns_and_no_test_is_lost() -> None:
    nodes = [f"tests/{name}.py::test[{number}]" for name in "abc" for number in range(10)]
    order = by_turns(nodes, "seed")
    assert sorted(order) == sorted(nodes)
    first = Counter(node[6] for node in order[: 3 * AT_A_TIME])
    assert first == dict.fromkeys("abc", AT_A_TIME)
    assert by_turns(nodes, "another seed") != order == by_turns(reversed(nodes), "seed")


def test_what_changed_comes_first() -> None:
    nodes = ["tests/integration/store/test_a.py::a", "tests/integration/git/test_b.py::b", "tests/e2e/test_c.py::c"]
    orders = {tuple(chosen(nodes, ["git"], str(seed))) for seed in range(20)}
    assert {order[0] for order in orders} == {nodes[1]}
    assert len(orders) == 2


@pytest.mark.slow
def test_what_fails_only_beside_others_is_listed_and_what_fails_alone_fails_the_run(tmp_path: Path) -> None:
    code, text = pytest_in(tmp_path, "-n2", flaky=2)
    assert (code, text.splitlines()[-1].strip("= ").partition(" in ")[0]) == (0, "1 passed, 1 skipped, 2 flaky")
    assert text.count("\n    AssertionError") == 2
    kept = sorted((path.name, "AssertionError" in path.read_text()) for path in tmp_path.glob(".ci/flaky/*/*"))
    assert kept == [("alone.txt", False)] * 2 + [("beside-others.txt", True)] * 2
    code, text = pytest_in(tmp_path, "-n2", flaky=1, wrong=1)
    assert (code, text.splitlines()[-1].strip("= ").partition(" in ")[0]) == (1, "1 failed, 1 passed, 1 flaky")


@pytest.mark.slow
def test_more_than_three_flaky_tests_fail_the_run(tmp_path: Path) -> None:
    code, text = pytest_in(tmp_path, "-n2", flaky=4)
    assert code == 1
    assert text.count("both outputs: .ci/flaky/") == 4


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-n2"]], ids=["alone", "parallel"])
def test_when_the_time_is_spent_the_rest_is_left_out_and_counted(tmp_path: Path, options: list[str]) -> None:
    code, text = pytest_in(tmp_path, "--minutes=0", *options, wrong=3)
    assert code in {0, pytest.ExitCode.NO_TESTS_COLLECTED}
    assert "left out: 5 of 5 tests" in text


def test_a_stopped_night_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tmp_path / "ran"
    suites = {
        "good": f"echo good >>{ran}; echo '== 3 passed, 1 flaky in 2s =='",
        "bad": f"echo bad >>{ran}; echo '1 failed, 2 passed in 1s'; exit 1",
    }
    carry_out({"good": suites["good"]}, tmp_path / "night")
    outcomes = carry_out(suites, tmp_path / "night")
    assert ran.read_text().split() == ["good", "bad"]
    assert {name: (each["exit_code"], each["tests"]) for name, each in outcomes.items()} == {
        "good": (0, {"passed": 3, "flaky": 1}),
        "bad": (1, {"failed": 1, "passed": 2}),
    }
    assert row("bad", outcomes["bad"]).split()[1:7] == ["2", "passed", "1", "failed", "0", "flaky"]
    assert carry_out(suites, tmp_path / "night", ["bad"]).keys() == suites.keys()
    assert ran.read_text().split() == ["good", "bad", "bad"]
