"""Detection of a repository's gates over many layouts, by names and contents of files."""

import pytest
from inline_snapshot import snapshot

from scaffold.core.proof.gates import Gate
from scaffold.verify.gates.detection import apply_gate_settings, detect_gates, drop_unavailable_gates
from scaffold.verify.gates.projects.project_files import ProjectFiles
from scaffold.verify.gates.runner_detection import detect_runner

TEST = "def test_a(): pass\n"
CASE = "import unittest\nclass TestA(unittest.TestCase): pass\n"
JEST = '{"scripts": {"test": "jest --ci", "build": "tsc -b", "lint": "eslint .", "type-check": "tsc --noEmit"}}'
PYTEST = "test, pytest: python3 -m pytest -q"


def found(files):
    return detect_gates(ProjectFiles(files, lambda path: files[path].encode()))


def gates_of(detection):
    """Return a line for each gate: its kind, its runner, its folder if it has one, its command."""
    return [
        f"{gate.kind}, {gate.runner}{f' in {gate.folder}' if gate.folder else ''}: {gate.command}"
        for gate in detection.gates
    ]


def test_the_first_manifest_decides_the_project_type():
    """AL-8: project type by go.mod, package.json, Cargo.toml, pyproject.toml in that order, else unknown."""
    rows = [
        ({}, "unknown"),
        ({"README.md": "", "tests/data.json": ""}, "unknown"),
        ({"go.mod": "", "package.json": "", "Cargo.toml": "", "pyproject.toml": ""}, "go"),
        ({"package.json": "", "Cargo.toml": "", "pyproject.toml": ""}, "node"),
        ({"Cargo.toml": "", "pyproject.toml": ""}, "rust"),
        ({"pyproject.toml": ""}, "python"),
        ({"setup.py": ""}, "python"),
        ({"tests/test_a.py": TEST}, "python"),
        ({"pyproject.toml": "[broken", "package.json": "{broken", "Cargo.toml": "[["}, "node"),
        ({"node_modules/x/package.json": "{}", "vendor/y/go.mod": ""}, "unknown"),
    ]
    assert [(files, found(files).kind) for files, _ in rows] == rows


def test_gates_of_python_projects():
    """AL-9: test, build, lint and type check as far as a project has them."""
    rows = [
        ({"pyproject.toml": "", "tests/test_a.py": TEST}, [PYTEST]),
        ({"pyproject.toml": "", "src/a/b_test.py": "class TestA:\n    def test_a(self): pass\n"}, [PYTEST]),
        ({"test_a.py": CASE}, ["test, unittest: python3 -m unittest"]),
        (
            {"test_a.py": "from base import Base\nclass A(Base):\n    size = 1\n\n    def test_a(self): pass\n"},
            ["test, unittest: python3 -m unittest"],
        ),
        ({"test_a.py": "class A(Base):\n    size = 1\n"}, []),
        ({"tests/test_a.py": CASE}, ["test, unittest: python3 -m unittest discover -s tests"]),
        ({"tests/test_a.py": CASE, "tests/__init__.py": ""}, ["test, unittest: python3 -m unittest"]),
        ({"tests/test_a.py": CASE, "conftest.py": ""}, [PYTEST]),
        ({"tests/test_a.py": CASE, "pyproject.toml": "[tool.pytest.ini_options]"}, [PYTEST]),
        ({"tests/test_a.py": CASE, "setup.cfg": "[tool:pytest]\n"}, [PYTEST]),
        ({"tests/test_a.py": CASE, "pyproject.toml": "[dependency-groups]\ndev = ['pytest>=8']"}, [PYTEST]),
        (
            {"tests/test_a.py": CASE, "pyproject.toml": "[dependency-groups]\ndev = ['pytest-splinter']"},
            ["test, unittest: python3 -m unittest discover -s tests"],
        ),
        ({"tests/test_a.py": CASE, "pyproject.toml": "[tool.poetry.group.dev.dependencies]\npytest = '*'"}, [PYTEST]),
        ({"pyproject.toml": "[tool.pytest.ini_options]"}, []),
        ({"pyproject.toml": "[tool.pytest.ini_options]\npython_files = 'check_*.py'"}, [PYTEST]),
        ({"tests/test_a.py": "", "venv/test_b.py": TEST}, []),
        (
            {"setup.py": "", "mypy.ini": "[mypy]\nfiles = src,\n  tests\n[mypy-x.*]\nignore_errors = True\n"},
            ["typecheck, findings: mypy"],
        ),
        ({"setup.py": "", "setup.cfg": "[mypy]\nmodules = app\n"}, ["typecheck, findings: mypy"]),
        (
            {".mypy.ini": "[mypy]\nstrict = True\n", "pyproject.toml": "[tool.mypy]\nfiles = 'x'"},
            ["typecheck, findings: mypy ."],
        ),
        ({"setup.py": "", "mypy.ini": "no section\n"}, ["typecheck, findings: mypy ."]),
        (
            {"pyproject.toml": "[tool.ruff]\n[tool.mypy]\nfiles = ['src']"},
            ["lint, findings: ruff check .", "typecheck, findings: mypy"],
        ),
        (
            {"pyproject.toml": "", "tox.ini": "[flake8]", "pyrightconfig.json": ""},
            ["lint, findings: flake8", "typecheck, findings: pyright"],
        ),
    ]
    assert [(files, gates_of(found(files))) for files, _ in rows] == rows


def test_gates_of_node_projects():
    """AL-9: scripts of package.json, in a workspace those of its packages where the top tests nothing."""
    rows = [
        (
            {"package.json": JEST, "src/a.test.ts": ""},
            [
                "test, jest: npm run test",
                "build, exit: npm run build",
                "lint, findings: npm run lint",
                "typecheck, findings: npm run type-check",
            ],
        ),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, []),
        (
            {"package.json": '{"scripts": {"test": "vitest run"}}', "yarn.lock": "", "__tests__/a.js": ""},
            ["test, vitest: yarn run test"],
        ),
        ({"package.json": '{"scripts": {"test": "node --test"}}'}, []),
        ({"package.json": '{"scripts": {"test": "node --test"}}', "test/a.js": ""}, ["test, node: npm run test"]),
        ({"package.json": '{"scripts": {"test": "node --test lib"}}'}, ["test, node: npm run test"]),
        (
            {"package.json": '{"scripts": {"test": "npm run unit && tstyche", "unit": "c8 --100 node --test"}}'},
            ["test, node: npm run test"],
        ),
        ({"package.json": '{"scripts": {"test": "eslint . && node --test"}}'}, ["test, exit: npm run test"]),
        ({"package.json": '{"scripts": {"test": "npm run test"}}'}, ["test, exit: npm run test"]),
        ({"package.json": '{"scripts": {"test": "tsc && jest"}}', "a.spec.js": ""}, ["test, exit: npm run test"]),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, []),
        ({"package.json": "{", "tsconfig.json": ""}, ["typecheck, findings: npx --no-install tsc --noEmit"]),
        ({"package.json": '{"scripts": [1]}'}, []),
        (
            {
                "package.json": '{"workspaces": ["packages/*", "!packages/old"]}',
                **{f"packages/{name}/package.json": JEST for name in ("api", "old", "api/deep")},
                "packages/api/a.test.js": "",
                "packages/old/a.test.js": "",
            },
            [
                "test, jest in packages/api: npm run test",
                "build, exit in packages/api: npm run build",
                "lint, findings in packages/api: npm run lint",
                "typecheck, findings in packages/api: npm run type-check",
            ],
        ),
        (
            {
                "package.json": "{}",
                "pnpm-lock.yaml": "",
                "pnpm-workspace.yaml": "packages:\n  - ./apps/*\n",
                "apps/web/package.json": '{"scripts": {"test": "node --test"}}',
                "apps/web/a.test.js": "",
            },
            ["test, node in apps/web: pnpm run test"],
        ),
        (
            {"package.json": "{}", "pyproject.toml": "[tool.ruff]", "tests/test_a.py": TEST},
            [PYTEST, "lint, findings: ruff check ."],
        ),
    ]
    assert [(files, gates_of(found(files))) for files, _ in rows] == rows


def test_gates_of_go_and_rust_projects():
    """AL-9: a repository without tests has no test gate."""
    assert gates_of(found({"go.mod": "module x", "a_test.go": "", ".golangci.yml": ""})) == [
        "test, go: go test ./...",
        "build, exit: go build ./...",
        "lint, findings: golangci-lint run",
    ]
    assert [gate.command for gate in found({"go.mod": "module x"}).gates] == ["go build ./...", "go vet ./..."]
    used = {"go.work": "go 1.22\n\nuse (\n\t./api\n\t./gone\n)\n", "api/go.mod": "", "api/a_test.go": ""}
    assert gates_of(found(used))[0] == "test, go in api: go test ./..."
    workspace = {"Cargo.toml": "[workspace]", "one/src/lib.rs": "#[cfg(test)]\nmod tests {}"}
    assert [gate.command for gate in found(workspace).gates] == [
        "cargo test --workspace",
        "cargo build --workspace",
        "cargo clippy --workspace --message-format short -- -D warnings",
    ]
    assert [gate.kind for gate in found({"Cargo.toml": "", "src/main.rs": "fn main() {}"}).gates] == ["build", "lint"]


def test_a_makefile_tests_a_project_whose_own_runner_is_none_that_is_known():
    """AL-8, AL-9: beside a language without tests; a runner that the makefile starts decides as before."""
    own, script = {"Makefile": "test:\n\tsh run.sh\n", "run.sh": ""}, {"tool.py": ""}
    pytest_made = {"Makefile": "test:\n\tpytest\nlint:\n\truff check\n", **script}
    rows = [
        (own, ["test, exit: make test"]),
        ({**own, **script}, ["test, exit: make test"]),
        ({**own, "test_a.py": CASE}, ["test, unittest: python3 -m unittest"]),
        ({**own, "package.json": "{}"}, ["test, exit: make test"]),
        (pytest_made, []),
    ]
    assert [[line for line in gates_of(found(files)) if line.startswith("test")] for files, _ in rows] == [
        gates for _, gates in rows
    ]


def test_nested_projects_count_if_the_top_is_none():
    files = {
        "backend/pyproject.toml": "",
        "backend/tests/test_a.py": TEST,
        "backend/plugins/x/pyproject.toml": "",
        "frontend/package.json": JEST,
        "frontend/a.test.js": "",
    }
    detection = found(files)
    assert detection.kind == "unknown"
    assert "test, pytest in backend: python3 -m pytest -q" in gates_of(detection)
    assert "test, jest in frontend: npm run test" in gates_of(detection)
    assert {gate.folder for gate in detection.gates} == {"backend", "frontend"}
    assert len({gate.name for gate in detection.gates}) == len(detection.gates)


def test_setup_commands_are_detected():
    rows = [
        ({"pyproject.toml": "[project]\nname = 'x'"}, ()),
        ({"pyproject.toml": "[project]\nname = 'x'", "uv.lock": ""}, ("uv sync --locked",)),
        (
            {"pyproject.toml": "[tool.poetry]\nname = 'x'"},
            ("POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction",),
        ),
        (
            {"pyproject.toml": "[project]\ndependencies = ['attrs']\noptional-dependencies = {test = [], docs = []}"},
            ("python3 -m venv .venv", ".venv/bin/python -m pip install -e '.[test]'"),
        ),
        (
            {"requirements.txt": "", "setup.py": "", "pyproject.toml": "[dependency-groups]\ndev = ['pytest>=8']"},
            (
                "python3 -m venv .venv",
                ".venv/bin/python -m pip install -r requirements.txt",
                ".venv/bin/python -m pip install -e .",
                ".venv/bin/python -m pip install 'pytest>=8'",
            ),
        ),
        ({"package.json": "{}"}, ()),
        ({"package.json": '{"devDependencies": {"jest": "*"}}'}, ("npm install",)),
        ({"package.json": "{}", "package-lock.json": ""}, ("npm ci",)),
        ({"package.json": "{}", "pnpm-lock.yaml": ""}, ("pnpm install --frozen-lockfile",)),
        ({"go.mod": "module x\n\nrequire example.com/y v1.0.0\n"}, ("go mod download",)),
        ({"Cargo.toml": "[dependencies]", "Cargo.lock": ""}, ("cargo fetch --locked",)),
        ({"web/package.json": "{}", "web/package-lock.json": ""}, ("cd web && npm ci",)),
    ]
    assert [(files, found(files).setup) for files, _ in rows] == rows


@pytest.mark.parametrize(
    ("command", "runner"),
    [
        ("pytest", "pytest"),
        ("cd backend && CI=1 uv run pytest -q tests", "pytest"),
        ("coverage run -m pytest", "pytest"),
        (".venv/bin/python3 -m pytest", "pytest"),
        ("pytest tests/unit; pytest tests/slow", "exit"),
        ("pytest -q || true", "exit"),
        ("pytest | tee log", "exit"),
        ("make test", "exit"),
        ("echo 'unclosed", "exit"),
        ('sh -c "$(cat run)"', "exit"),
        ("python3.12 -m unittest discover -s tests", "unittest"),
        ("python manage.py test", "exit"),
        ("go test -race ./...", "go"),
        ("cargo +nightly test", "cargo"),
        ("npx jest --ci", "jest"),
        ("pnpm exec vitest run", "vitest"),
        ("nyc mocha --recursive", "mocha"),
        ("npm test", "jest"),
        ("npm run unit", "exit"),
        ("", "exit"),
    ],
)
def test_a_configured_command_is_recognised_by_its_words(command, runner):
    """AL-9: it is read by its runner's report if there is one, else by its exit code."""
    assert detect_runner("test", command, {"test": "jest"}) == runner
    assert detect_runner("lint", command, {}) == "findings"
    assert detect_runner("build", command, {}) == "exit"


def test_settings_replace_detected_gates():
    """AL-9: quality_gates.KIND gives a command, or turns a kind off."""
    detection = found({"package.json": JEST, "src/a.test.ts": ""})
    given = Gate(kind="test", command="npm test"), Gate(kind="build", command="make")
    settled = apply_gate_settings(detection, given, ("lint", "build"))
    assert gates_of(settled) == snapshot(["test, jest: npm test", "typecheck, findings: npm run type-check"])
    assert settled.given == {"test"}


def test_missing_tools_are_noted_and_tests_and_configured_gates_stay(tmp_path):
    """BX-4: a missing tool of a detected gate is reported once; that of a configured one is an error."""
    script = '{"scripts": {"test": "jest", "lint": "eslint .", "build": "./build.sh"}}'
    files = {"package.json": script, "a.test.js": "", "tsconfig.json": ""}
    detection = apply_gate_settings(found(files), (Gate(kind="typecheck", command="nosuchtool"),), ())
    left = drop_unavailable_gates(detection, tmp_path, {"PATH": ""})
    assert [gate.kind for gate in left.gates] == ["typecheck", "test"]
    assert left.notes == snapshot(
        ("./build.sh is not installed, so build is not checked", "eslint is not installed, so lint is not checked")
    )
    for path in ("build.sh", "node_modules/.bin/eslint"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("#!/bin/sh\n")
        (tmp_path / path).chmod(0o755)
    assert drop_unavailable_gates(detection, tmp_path, {"PATH": ""}).notes == ()


def test_tools_come_from_the_projects_environment_if_it_has_one(tmp_path):
    """BX-4: another version of a tool, somewhere else on PATH, has other findings."""
    detection = found({"pyproject.toml": "[tool.ruff]\n[tool.mypy]\n", "test_a.py": TEST})
    for path in ("system/ruff", "system/mypy", "top/.venv/bin/mypy"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("#!/bin/sh\n")
        (tmp_path / path).chmod(0o755)
    own = f"{tmp_path}/top/.venv/bin"
    environ = {"PATH": f"{own}:{tmp_path}/system"}
    left = drop_unavailable_gates(detection, tmp_path / "top", environ, (own,))
    assert [gate.kind for gate in left.gates] == ["test", "typecheck"]
    assert left.notes == snapshot(("ruff is not installed in the project's environment, so lint is not checked",))
    given = apply_gate_settings(detection, (Gate(kind="lint", command="ruff check"),), ())
    assert drop_unavailable_gates(given, tmp_path / "top", environ, (own,)).notes == ()
    # Without an environment of its own, a project uses what there is.
    assert drop_unavailable_gates(detection, tmp_path / "top", environ).notes == ()


def test_node_tools_come_from_node_modules_if_the_project_has_one(tmp_path):
    detection = found({"package.json": '{"scripts": {"lint": "eslint ."}}'})
    (tmp_path / "eslint").write_text("#!/bin/sh\n")
    (tmp_path / "eslint").chmod(0o755)
    environ = {"PATH": str(tmp_path)}
    assert drop_unavailable_gates(detection, tmp_path, environ).notes == ()
    (tmp_path / "node_modules" / ".bin").mkdir(parents=True)
    notes = drop_unavailable_gates(detection, tmp_path, environ).notes
    assert notes == snapshot(("eslint is not installed in node_modules/.bin, so lint is not checked",))
