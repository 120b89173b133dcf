"""What says that a gate or a set-up command is the project's: the file, the line, and what it does there."""

from inline_snapshot import snapshot

from scaffold.verify.gates.detection import detect_gates
from scaffold.verify.gates.projects.project_files import ProjectFiles

TEST = "import calc\n\n\ndef test_a(): pass\n"
TOOLS = "[project]\nname = 'x'\n\n[tool.ruff]\n\n[tool.mypy]\nfiles = ['src']\n"


def command_of(detection, kind):
    return next((gate.command for gate in detection.gates if gate.kind == kind), None)


def found(files):
    return detect_gates(ProjectFiles(files, lambda path: files[path].encode()))


def reasons(files, name):
    return found(files).reasons[name].text


def test_each_gate_names_the_file_and_line_that_says_so():
    """AL-28: `init` shows why it found what it found."""
    rows = [
        ({"pyproject.toml": "", "tests/test_a.py": TEST}, "test"),
        ({"pyproject.toml": "\n[tool.pytest.ini_options]\n", "test_a.py": TEST}, "test"),
        ({"setup.cfg": "[a]\n[tool:pytest]\n", "setup.py": "", "test_a.py": TEST}, "test"),
        ({"test_a.py": "\nclass A(TestCase): pass\n"}, "test"),
        ({"pyproject.toml": TOOLS}, "lint"),
        ({"pyproject.toml": TOOLS}, "typecheck"),
        ({"setup.py": "", "tox.ini": "[x]\n[flake8]\n"}, "lint"),
        ({"go.mod": "// x\nmodule x\n", "a_test.go": ""}, "test"),
        ({"go.mod": "// x\nmodule x\n"}, "build"),
        ({"Cargo.toml": "[package]\n", "src/a.rs": "\n#[cfg(test)]\n"}, "test"),
        ({"package.json": '{"name": "test",\n "scripts": {\n  "test": "node --test"}}', "a.test.js": ""}, "test"),
        ({"package.json": "{}", "yarn.lock": ""}, "yarn install"),
        ({"api/pyproject.toml": TOOLS}, "lint (api)"),
    ]
    assert [reasons(files, name) for files, name in rows] == snapshot(
        [
            "tests/test_a.py:4 has pytest tests",
            "pyproject.toml:2 configures pytest",
            "setup.cfg:2 configures pytest",
            "test_a.py:2 has unittest tests",
            "pyproject.toml:4 configures ruff",
            "pyproject.toml:6 configures mypy",
            "tox.ini:2 configures flake8",
            "a_test.go has Go tests",
            "go.mod:2 is a Go module",
            "src/a.rs:2 has Rust tests",
            "package.json:3 has the script `node --test`",
            "yarn.lock is the lock file of yarn",
            "api/pyproject.toml:4 configures ruff",
        ]
    )


def test_a_command_of_the_project_is_found_again_in_its_file():
    """AL-28: also where programs that only start it, variables and comments are around it."""
    rows = [
        ("Makefile", "SRC = src\nlint:\n\t@uv run ruff check $(SRC)\n", 3),
        ("tox.ini", "[tox]\nenv_list = ruff\n[testenv]\ncommands =\n  ruff check src\n", 5),
        (".github/workflows/ci.yml", "# ruff check\njobs:\n  a:\n    steps:\n      - run: ruff check src\n", 5),
        (".pre-commit-config.yaml", "repos:\n  - repo: x\n    hooks:\n      - id: ruff-check\n", 4),
        ("noxfile.py", "def lint(s):\n    s.install('ruff')\n    s.run('ruff', 'check', 'src')\n", 3),
        ("pyproject.toml", f"{TOOLS}[tool.hatch.envs.a.scripts]\nlint = 'ruff check src'\n", 9),
        ("hatch.toml", "[envs.a]\ndependencies = ['ruff']\n[envs.a.scripts]\nlint = 'ruff check src'\n", 4),
        (".travis.yml", "script:\n  - ruff check src\n", 2),
        (".circleci/config.yml", "jobs:\n  a:\n    steps:\n      - run: {command: ruff check src}\n", 4),
        (".gitlab-ci.yml", "lint:\n  script: [ruff check src]\n", 2),
    ]
    for name, text, line in rows:
        reason = found({"pyproject.toml": TOOLS, "src/a.py": "", name: text}).reasons["lint"]
        assert (reason.path, reason.line) == (name, line), name


def test_shell_scripts_that_a_workflow_starts_are_read():
    check = (
        '#!/bin/sh -e\nexport PREFIX=""\nif [ -d venv ]; then export PREFIX="venv/bin/"; fi\nexport CODE="app tests"\n'
    )
    files = {
        "pyproject.toml": TOOLS,
        "app/a.py": "",
        "tests/test_a.py": TEST,
        ".github/workflows/ci.yml": "jobs:\n  a:\n    steps:\n      - run: scripts/all\n",
        "scripts/all": "#!/bin/sh\n./scripts/check\nscripts/all\n",
        "scripts/check": f"{check}${{PREFIX}}ruff check $CODE\n${{PREFIX}}mypy $CODE\n",
        "scripts/other": "#!/bin/sh\nruff check nowhere\n",
        "scripts/tool": "#!/usr/bin/env python3\nruff check nowhere\n",
    }
    detection = found(files)
    assert command_of(detection, "lint") == snapshot("ruff check app tests")
    assert command_of(detection, "typecheck") == "mypy app tests"
    assert detection.reasons["lint"].text == snapshot("scripts/check:5 runs `ruff check app tests`")


def test_targets_of_a_makefile_are_gates_where_nothing_else_names_any():
    """AL-9: a repository in another language has its tests all the same."""
    rows = [
        ({"Makefile": "CC := cc\nall: a\n\ta\ncheck test: all\n\t./run\n"}, {"test": "make test", "build": "make all"}),
        ({"Makefile": ".PHONY: check\ncheck:\n\t./run\n"}, {"test": "make check"}),
        (
            {"justfile": "set shell := ['sh']\n@test *args: build\n  ./run\nlint:\n  x\n"},
            {"test": "just test", "lint": "just lint"},
        ),
        ({"Makefile": "install:\n\tx\n"}, {}),
        ({"Makefile": "test:\n\tx\n", "data/package.json": "{}"}, {"test": "make test"}),
        ({"Makefile": "test:\n\tgo test\n", "go.mod": "module x"}, {"build": "go build ./...", "lint": "go vet ./..."}),
        (
            {"Makefile": "test:\n\tx\nlint:\n\tx\n", "api/pyproject.toml": "", "api/test_a.py": TEST},
            {"test (api)": "python3 -m pytest -q", "lint": "make lint"},
        ),
    ]  # fmt: skip
    assert [(files, {gate.name: gate.command for gate in found(files).gates}) for files, _ in rows] == rows


def test_of_several_languages_the_one_whose_tests_the_project_runs_comes_first():
    files = {
        "package.json": '{"scripts": {"test": "node --test"}}',
        "Cargo.toml": "[package]",
        "src/a.rs": "#[test]",
        "pyproject.toml": "[tool.ruff]",
        "tests/test_a.py": TEST,
        "Makefile": "test:\n\tuv run pytest\n\nlint:\n\truff check .\n",
    }
    detection = found(files)
    assert detection.kind == "node", "the type follows from the first manifest"
    assert (command_of(detection, "test"), command_of(detection, "build")) == ("python3 -m pytest -q", "cargo build")
    assert detection.reasons["test"].text == snapshot("Makefile:2 runs `uv run pytest`")
    assert detection.sources == {"test": "Makefile", "lint": "Makefile"}


GROUPS = """\
[project]
name = 'x'
dependencies = ['attrs']
optional-dependencies = {testing = ['hypothesis'], docs = ['sphinx']}
[tool.pytest.ini_options]
[tool.ruff]
[tool.mypy]
[dependency-groups]
dev = [{include-group = 'tests'}]
tests = ['pytest>=8']
all = ['ruff', 'mypy', 'sphinx']
lint = ['ruff', 'mypy']
docs = ['sphinx']
"""
WORKSPACE = "[tool.uv]\ndefault-groups = 'all'\n[tool.uv.workspace]\nmembers = ['p/*']\n"
TOX = "[testenv]\ndeps =\n  pytest\n  py38: old\n  -r{toxinidir}/x.txt\n  -r test.txt\nextras = fast\n"
TOX_EACH = """\
[testenv]
deps = pytest
[testenv:types]
deps = mypy>=1
commands = mypy src
[testenv:style]
deps =
  flake8
  py38: old
commands = flake8
[testenv:newest]
deps = pytest==99
commands = pytest
[testenv:docs]
deps = sphinx
[mypy]
"""
TOX_TOML = "[env_run_base]\ndeps = ['pytest']\n[env.types]\ndeps = ['mypy>=1']\n[env.docs]\ndeps = ['sphinx']\n"
NOX = """\
def t(s):
  s.install('-e', '.', 'pytest', 'trio')
  s.run('pytest')
def d(s):
  s.install('sphinx')
  s.run('sphinx')
"""
HATCH = "[envs.default]\ndependencies = ['pytest', 'anyio']\nfeatures = ['x']\n[envs.docs]\ndependencies = ['mkdocs']\n"


def test_set_up_installs_what_the_projects_tests_and_tools_need():
    """AL-10: without its own requirements no test of a project could run."""
    rows = [
        ({"pyproject.toml": GROUPS, "uv.lock": ""}, ["uv sync --locked --group tests --group lint --extra testing"]),
        (
            {"pyproject.toml": f"{GROUPS}{WORKSPACE}", "uv.lock": ""},
            ["uv sync --locked --all-packages --extra testing"],
        ),
        ({"pyproject.toml": GROUPS}, ["python3 -m venv .venv", "PIP -e '.[testing]'", "PIP 'pytest>=8' ruff mypy"]),
        (
            {"setup.py": "", "tox.ini": TOX, "test.txt": ""},
            ["python3 -m venv .venv", "PIP -r test.txt", "PIP -e .", "PIP pytest"],
        ),
        (
            {"setup.py": "", "tox.ini": TOX_EACH, "mypy.ini": "[mypy]\n"},
            ["python3 -m venv .venv", "PIP -e .", "PIP pytest 'mypy>=1' flake8"],
        ),
        (
            {"setup.py": "", "tox.toml": TOX_TOML, "mypy.ini": "[mypy]\n"},
            ["python3 -m venv .venv", "PIP -e .", "PIP pytest 'mypy>=1'"],
        ),
        ({"setup.py": "", "noxfile.py": NOX}, ["python3 -m venv .venv", "PIP -e .", "PIP pytest trio"]),
        (
            {"pyproject.toml": "[build-system]\n", "hatch.toml": HATCH},
            ["python3 -m venv .venv", "PIP -e .", "PIP pytest anyio"],
        ),
        ({"pyproject.toml": "[build-system]\n"}, ["python3 -m venv .venv", "PIP -e .", "PIP pytest"]),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, []),
        ({"requirements.txt": "flask\n"}, ["python3 -m venv .venv", "PIP -r requirements.txt", "PIP pytest"]),
        ({"requirements.txt": "PyTest==8\n"}, ["python3 -m venv .venv", "PIP -r requirements.txt"]),
        ({"requirements.txt": "-r other.txt\n"}, ["python3 -m venv .venv", "PIP -r requirements.txt"]),
        ({"Pipfile.lock": "{}", "setup.py": ""}, ["PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev"]),
        ({"pdm.lock": "", "pyproject.toml": ""}, ["pdm sync --dev"]),
    ]
    for files, setup in rows:
        detection = found({**files, "tests/test_a.py": TEST})
        commands = [each.replace(".venv/bin/python -m pip install", "PIP") for each in detection.setup]
        assert commands == setup, files
        assert set(detection.setup) <= detection.reasons.keys(), files


def test_a_folder_with_a_strange_name_is_one_word_of_its_set_up():
    folder = "a; touch hacked"
    assert found({f"{folder}/package.json": "{}", f"{folder}/yarn.lock": ""}).setup == (
        f"cd '{folder}' && yarn install",
    )


def test_the_package_manager_may_be_named_without_a_lock_file():
    detection = found(
        {"package.json": '{"packageManager": "pnpm@9.1.0", "scripts": {"lint": "x"}, "dependencies": {"a": "1"}}'}
    )
    assert (command_of(detection, "lint"), detection.setup) == ("pnpm run lint", ("pnpm install",))


def test_of_several_lock_files_the_named_or_the_installed_package_manager_decides(tmp_path, monkeypatch):
    """AL-28, SC-19: a set-up command of a program that is not there would fail, and the user is told of the other."""
    monkeypatch.setenv("PATH", str(tmp_path))
    both = {"yarn.lock": "", "package-lock.json": "{}", "package.json": "{}"}
    named = {**both, "package.json": '{"packageManager": "npm@10.1.0"}'}

    def setup(files):
        return *(detection := found(files)).setup, *detection.notes

    told = "set-up uses package-lock.json and not yarn.lock: {}".format
    assert setup(named) == ("npm ci", told("package.json names npm"))
    assert setup(both) == ("yarn install", "set-up uses yarn.lock and not package-lock.json: yarn is not installed")
    for program in ("npm", "yarn"):
        (tmp_path / program).touch(0o755)
        expected = {"npm": ("npm ci", told("npm is installed")), "yarn": ("yarn install",)}[program]
        assert setup(both)[: len(expected)] == expected
