"""The steps that prepare an environment, chosen by what exists."""

import os

from scaffold.verify.environment.dependencies import (
    hash_lines,
    install_folder,
    installed_lines,
    toolchain_lines,
    with_venv_creation,
)
from scaffold.verify.environment.golden import installed_programs
from scaffold.verify.environment.preparation import SetupPlan, plan_setup


def test_the_folder_a_setup_command_fills_is_recognised_by_its_program():
    expected = {
        "npm ci": "node_modules",
        "pnpm install --frozen-lockfile": "node_modules",
        "python -m pip install -e .": ".venv",
        "/usr/bin/python3 -m venv .venv": ".venv",
        "uv sync --locked": ".venv",
        "poetry install": ".venv",
        "PIP_INDEX_URL=x pip install -r requirements.txt": ".venv",
        "go mod download": None,
        "cargo fetch": None,
        "make setup": None,
        "echo 'unfinished": None,
        "": None,
    }
    assert {command: install_folder(command) for command in expected} == expected


def test_pip_gets_its_own_environment_in_the_checkout():
    """Otherwise it would install into the system."""
    rows = [
        (("pip install -e .",), True),
        (("python -m pip install -r /elsewhere/.venv/requirements.txt",), True),
        (("npm ci", "uv pip install ."), True),
        (("python3 -m venv .venv", ".venv/bin/pip install ."), False),
        (("uv venv", "uv pip install ."), False),
        (("uv sync",), False),
        (("npm ci",), False),
        ((), False),
    ]
    for commands, before in rows:
        expected = ("python3 -m venv .venv", *commands) if before else commands
        assert with_venv_creation(commands) == expected


SETUP = ("uv sync --locked", "npm ci")


def test_only_missing_parts_are_installed_and_only_in_a_trusted_folder():
    """AL-9: setup commands of a repository never run before its folder is trusted."""
    expected = {
        ((), True): SetupPlan(run=SETUP, copy=(), borrow=False, left_out=()),
        ((), False): SetupPlan(run=(), copy=(), borrow=False, left_out=SETUP),
        ((".venv", "node_modules"), True): SetupPlan(run=(), copy=("node_modules",), borrow=True, left_out=()),
        ((".venv", "node_modules"), False): SetupPlan(run=(), copy=("node_modules",), borrow=True, left_out=()),
        ((".venv",), True): SetupPlan(run=SETUP[1:], copy=(), borrow=True, left_out=()),
        ((".venv",), False): SetupPlan(run=(), copy=(), borrow=True, left_out=SETUP[1:]),
        (("packages/a/node_modules",), True): SetupPlan(run=SETUP, copy=(), borrow=False, left_out=()),
        (("node_modules", "packages/a/node_modules"), True): SetupPlan(
            run=SETUP[:1], copy=("node_modules", "packages/a/node_modules"), borrow=False, left_out=()
        ),
        (("calc.egg-info",), True): SetupPlan(run=SETUP, copy=(), borrow=False, left_out=()),
    }
    assert {(there, trusted): plan_setup(SETUP, there, trusted=trusted) for there, trusted in expected} == expected


def test_without_setup_commands_nothing_is_installed():
    assert plan_setup((), (), trusted=True) == SetupPlan(run=(), copy=(), borrow=False, left_out=())


def test_a_named_pipe_among_installed_packages_is_not_waited_for(tmp_path):
    """BX-9: an agent that worked in the user's checkout may have left it, and a run would wait for ever."""
    os.mkfifo(tmp_path / ".package-lock.json")
    assert installed_lines(tmp_path)[0] == str(tmp_path)


def test_different_dependencies_give_different_digests_and_caches_do_not_count(tmp_path):
    modules = tmp_path / "node_modules"
    (modules / "left").mkdir(parents=True)
    seen = [installed_lines(modules)]
    (modules / ".cache").mkdir()
    assert installed_lines(modules) == seen[0]
    (modules / ".package-lock.json").write_text("{}")
    seen.append(installed_lines(modules))
    (modules / "right").mkdir()
    seen.append(installed_lines(modules))
    packages = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages"
    (packages / "attrs-1.dist-info").mkdir(parents=True)
    seen.append(installed_lines(tmp_path / ".venv"))
    (packages / "__pycache__").mkdir()
    assert installed_lines(tmp_path / ".venv") == seen[-1]
    (packages / "attrs-1.dist-info").rename(packages / "attrs-2.dist-info")
    seen.append(installed_lines(tmp_path / ".venv"))
    assert len({hash_lines(each) for each in seen}) == len(seen) == 5


def test_a_different_interpreter_gives_a_different_key(tmp_path):
    for number in "12":
        (tmp_path / number).mkdir()
        (tmp_path / number / "node").write_text(f"#!/bin/sh\necho {'v' * int(number)}")
        (tmp_path / number / "node").chmod(0o755)
    first, second = (toolchain_lines(f"{tmp_path / number}{os.pathsep}/nowhere") for number in "12")
    assert len(first) == len(second) == 1
    assert first != second
    (tmp_path / "1" / "node").chmod(0o644)
    assert toolchain_lines(str(tmp_path / "1")) == ()


def test_programs_come_from_the_top_or_from_the_only_python_project_below_it():
    """AL-10: the tests of a project in a folder run with what was installed for it."""
    expected = {
        (".venv", "node_modules"): ["{top}/.venv/bin", "{top}/node_modules/.bin"],
        ("api/.venv", "web/node_modules"): ["{top}/api/.venv/bin"],
        ("a/.venv", "b/.venv"): [],
        (".venv", "b/.venv"): ["{top}/.venv/bin"],
        ("x.egg-info",): [],
    }
    assert {installed: list(installed_programs(installed)) for installed in expected} == expected
