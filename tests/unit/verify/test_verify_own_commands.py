"""What a project itself runs for its checks, read from its files, and the gates that follow it."""

from scaffold.verify.gates.detection import detect_gates
from scaffold.verify.gates.projects.own_commands import own_commands
from scaffold.verify.gates.projects.project_files import ProjectFiles

TEST = "def test_a(): pass\n"
CODE = {"src/calc/a.py": "", "src/calc/b.py": "", "tests/test_a.py": TEST, "pyproject.toml": ""}
WORKFLOW = "on: push\njobs:\n  a:\n    steps:\n      - uses: actions/checkout@v4\n"


def files_of(files):
    return ProjectFiles(files, lambda path: files[path].encode())


def read(files):
    return [(" ".join(command.words), command.exact) for command in own_commands(files_of(files))]


def detected(**more):
    files = {**CODE, **{name.replace("__", "/"): text for name, text in more.items()}}
    return detect_gates(files_of(files))


def test_commands_are_read_from_the_files_in_which_projects_keep_them():
    """AL-8: as hints, with the parsers of the formats."""
    rows = [
        ("tox.ini", "[testenv]\ncommands =\n    pytest {posargs:tests}\n    - mypy src\n", ["pytest tests"]),
        ("tox.ini", "[testenv:a]\ncommands = py38: {envpython} -m pytest\n   {toxinidir}/run.sh", ["pytest", "run.sh"]),
        ("tox.ini", "[x]\nall = ruff check\n[testenv]\ncommands = {[x]all}\n", ["ruff check"]),
        ("tox.ini", "[testenv]\ncommands =\n  coverage run \\\n    --source src -m pytest -q\n", ["pytest -q"]),
        ("setup.cfg", "[testenv]\ncommands = mypy\n", ["mypy"]),
        ("pyproject.toml", "[tool.tox]\nlegacy_tox_ini = '''\n[testenv]\ncommands = mypy\n'''", ["mypy"]),
        ("pyproject.toml", "[tool.tox.env_run_base]\ncommands = [['pytest', {replace = 'posargs'}]]", ["pytest"]),
        ("tox.toml", "[env.lint]\ncommands = [['ruff', 'check']]", ["ruff check"]),
        ("pyproject.toml", "[tool.hatch.envs.a.scripts]\nt = 'pytest {args:tests}'", ["pytest tests"]),
        ("pyproject.toml", "[tool.poe.tasks]\nt.cmd = 'poetry run mypy src'", ["mypy src"]),
        ("noxfile.py", "def t(s):\n  s.run('python', '-m', 'pytest', *s.posargs)\n  s.install('mypy')\n", ["pytest"]),
        ("Makefile", "PY = uv run python\nlint:\n\t@$(PY) -m mypy src \\\n\t\ttests\n", ["mypy src tests"]),
        ("justfile", "test:\n  uv run --group dev pytest\n", ["pytest"]),
        (".gitlab-ci.yml", "test:\n  script: [pip install x, 'pytest -x']\n", ["pip install x", "pytest -x"]),
        (
            ".github/workflows/ci.yml",
            f"{WORKFLOW}      - run: |\n          npx eslint .\n          ls\n",
            ["eslint .", "ls"],
        ),
        (".github/workflows/ci.yml", f"{WORKFLOW}      - run: mypy . || true\n", ["true"]),
        (".github/workflows/ci.yml", f"{WORKFLOW}      - run: mypy .\n        continue-on-error: true\n", []),
    ]
    for name, text, commands in rows:
        found = [command for command in read({name: text}) if command[0] != "actions/checkout@v4"]
        assert found == [(command, True) for command in commands], text


def test_commands_that_depend_on_more_than_their_words_are_not_exact():
    rows = [
        ("tox.ini", "[testenv]\ncommands = pytest {envsitepackagesdir}/x | tee log\n", "pytest {envsitepackagesdir}/x"),
        ("noxfile.py", "def t(s):\n  s.run('mypy', *PATHS)\n", "mypy"),
        ("Makefile", "t:\n\tPYTHONPATH=src pytest\n", "pytest"),
        (".github/workflows/ci.yml", f"{WORKFLOW}      - run: mypy\n        working-directory: lib\n", "mypy"),
        (".pre-commit-config.yaml", "repos: [{repo: a, hooks: [{id: ruff-check}]}]", "ruff check"),
        (".pre-commit-config.yaml", "repos: [{repo: local, hooks: [{id: a, entry: uv run mypy}]}]", "mypy"),
    ]
    assert [(name, text, command) for name, text, command in rows if (command, False) not in read({name: text})] == []


def test_files_that_cannot_be_parsed_say_nothing():
    names = ["tox.ini", "noxfile.py", ".pre-commit-config.yaml", "Makefile", "tox.toml", ".gitlab-ci.yml"]
    texts = ["[", "a: [b", "def (", "\t'", "- [x]\n- 5", "repos: 5", "jobs: []", "\0"]
    files = [{name: text, ".github/workflows/ci.yml": text} for name in names for text in texts]
    assert [each for each in files if own_commands(files_of(each)) != ()] == []


def test_a_gate_gets_the_projects_own_command_if_it_is_plain():
    """AL-8: `mypy --strict src` is the project's check, not `mypy .` of everything."""
    rows = [
        ({"tox.ini": "[testenv]\ncommands = mypy --strict src\n"}, "mypy --strict src"),
        ({"tox.ini": "[testenv]\ncommands =\n mypy tests\n mypy --pretty src\n"}, "mypy src"),
        ({"tox.ini": "[testenv]\ncommands = mypy gone/\n"}, "mypy ."),
        ({"tox.ini": "[testenv]\ncommands = mypy $PATHS\n"}, "mypy ."),
        ({"Makefile": "t:\n\tpyright\n"}, "pyright"),
        ({}, "mypy ."),
    ]
    for more, command in rows:
        found = detected(mypy_ini="[mypy]\n", **{"mypy.ini": "[mypy]\n"}, **more)
        gate = next(gate for gate in found.gates if gate.kind == "typecheck")
        assert (gate.command, gate.advisory) == (command, False), more


def test_a_detected_gate_that_the_projects_own_checks_never_run_only_warns():
    """BX-4: the configuration may be for an editor; a project without any checks of its own has only that."""
    text = {
        "pyproject.toml": "[tool.ruff]\n[tool.mypy]\n",
        "tox.ini": "[testenv]\ncommands =\n  pytest\n  ruff check src\n",
    }
    gates = {gate.kind: gate for gate in detected(**text).gates}
    assert (gates["lint"].command, gates["lint"].advisory) == ("ruff check src", False)
    assert (gates["typecheck"].command, gates["typecheck"].advisory) == ("mypy .", True)
    gates = {gate.kind: gate for gate in detected(**{**text, "tox.ini": "[testenv]\ncommands = sphinx-build\n"}).gates}
    assert not any(gate.advisory for gate in gates.values())


def test_the_selection_of_tests_is_the_projects_if_it_has_one():
    rows = [
        ("pytest --cov=src tests/unit", "python3 -m pytest -q tests/unit"),
        ("pytest -m 'not slow' -n auto", "python3 -m pytest -q -m 'not slow'"),
        ("pytest tests/unit\n  pytest tests/all", "python3 -m pytest -q"),
        ("pytest tests/unit\n  pytest {envdir}", "python3 -m pytest -q"),
        ("pytest gone", "python3 -m pytest -q"),
        ("python -m unittest discover -s tests -v", "python3 -m unittest discover -s tests"),
    ]
    more = {"tests/unit/test_b.py": TEST, "tests/all/test_c.py": TEST}
    for commands, command in rows:
        found = detected(**more, **{"tox.ini": f"[testenv]\ncommands =\n  {commands}\n"})
        assert [gate.command for gate in found.gates if gate.kind == "test"] == [command], commands
        assert found.sources["test"] == "tox.ini", commands


def test_linters_without_any_configuration_are_gates_if_the_project_runs_them():
    """AL-8: a stub test is a type check, too."""
    found = detected(Makefile="lint:\n\tflake8 --select=E9 src\n\tstubtest calc\n\tflake8 --exit-zero src\n")
    assert [(gate.kind, gate.command) for gate in found.gates if gate.kind != "test"] == [
        ("lint", "flake8 --select=E9 src"),
        ("typecheck", "stubtest calc"),
    ]
    assert found.tools["typecheck"] == "stubtest"


def test_go_and_node_gates_that_ci_never_runs_only_warn():
    files = {
        "go.mod": "",
        "a.go": "",
        "a_test.go": "",
        ".github/workflows/a.yml": f"{WORKFLOW}      - run: go test ./...\n",
    }
    assert [(gate.kind, gate.advisory) for gate in detect_gates(files_of(files)).gates] == [
        ("test", False),
        ("build", False),
        ("lint", True),
    ]
    files = {"package.json": '{"scripts": {"test": "jest", "lint": "eslint ."}}', "a.test.js": "", "tsconfig.json": ""}
    assert [(gate.kind, gate.advisory) for gate in detect_gates(files_of(files)).gates] == [
        ("test", False),
        ("lint", False),
        ("typecheck", True),
    ]
