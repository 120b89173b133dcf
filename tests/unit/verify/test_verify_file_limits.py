"""Files of a repository that were made to keep us busy: they are read in part or not at all, and named."""

import os

import pytest

from scaffold.verify.gates.detection import detect_gates, detect_in_folder
from scaffold.verify.gates.projects.project_files import ProjectFiles

PYTHON = {"pyproject.toml": "[tool.pytest.ini_options]\n", "tests/test_a.py": "def test_a(): pass\n"}
SCRIPT = {"Makefile": "test:\n\t./scripts/t.sh\n"}
STEP = "jobs:\n  t:\n    steps:\n      - run: "
COMMAS, OPEN, EMPTY, VALUES = "a," * 40_000, "${{" * 100_000, "\n" * 300_000, "$(B)" * 50_000
HOSTILE = {
    "factors of tox": {"tox.ini": f"[testenv]\ncommands = {COMMAS} b\n"},
    "expressions": {".github/workflows/ci.yml": f"{STEP}{OPEN}\n"},
    "lines of a script": {**SCRIPT, "scripts/t.sh": f"#!/bin/sh\n{EMPTY}x\n"},
    "blanks of a script": {**SCRIPT, "scripts/t.sh": f"#!/bin/sh\na={' ' * 300_000}!\n"},
    "variables of make": {"Makefile": f"A = {VALUES}\nB = {'x' * 50_000}\ntest:\n\t$(A)$(A)$(A)\n"},
    "assignments": {"package.json": f'{{"scripts": {{"test": "{"A=1 " * 100_000}"}}}}'},
}


def notes(files):
    return detect_gates(ProjectFiles(files, lambda path: files[path].encode())).notes


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.timeout(60)
def test_commands_made_to_never_end_do(name):
    """BX-9: `init` and `doctor` only read them."""
    notes(PYTHON | HOSTILE[name])


def test_a_file_beyond_a_limit_is_named_and_the_others_count():
    aliases = "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 9))
    files = {**PYTHON, ".github/workflows/ci.yml": f"a0: &a0 {{run: make}}\n{aliases}"}
    assert notes(files) == (".github/workflows/ci.yml has more than 100,000 values, so it is not read",)
    assert notes({**PYTHON, "package.json": "[" * 100_000}) == ("package.json is nested too deeply, so it is not read",)


def test_a_pipe_and_a_large_file_in_the_place_of_a_manifest_are_left_alone(tmp_path):
    for name, text in {**PYTHON, "package.json": "x" * 1_000_001}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    os.mkfifo(tmp_path / "tox.ini")
    found = detect_in_folder(tmp_path)
    assert [gate.kind for gate in found.gates] == ["test"]
    assert "package.json is larger than 1 MB, so it is not read" in found.notes
