"""`init`: findings from files alone, a configuration of comments, a first plan that works."""

import os
import shutil

import pytest
import yaml
from inline_snapshot import snapshot

from builders import git
from scaffold.cli.commands.setup.init import project_scan
from scaffold.plan.analysis.lint import lint
from scaffold.plan.text.file_format import read_plan
from scaffold.verify.gates.detection import detect_in_folder

PACKAGE = '{"scripts": {"test": "jest", "build": "tsc", "lint": "eslint .", "type-check": "tsc --noEmit"}}'
TESTS = {"tests/test_a.py": "def test_a(): pass\n"}
PYPROJECT = '[project]\nname = "x"\n[tool.pytest.ini_options]\n[tool.ruff]\n[tool.mypy]\n'


def lay_out(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


@pytest.mark.parametrize(
    ("files", "kind", "gates"),
    [
        ({}, "unknown", {}),
        ({"go.mod": "module x", "package.json": "{}"}, "go", {"build": "go build ./...", "lint": "go vet ./..."}),
        (
            {"package.json": PACKAGE, "package-lock.json": "{}", "Cargo.toml": "", "a.test.js": ""},
            "node",
            {
                "setup": "npm ci",
                "test": "npm run test",
                "build": "npm run build",
                "lint": "npm run lint",
                "typecheck": "npm run type-check",
            },
        ),
        (
            {"pyproject.toml": PYPROJECT, "requirements.txt": "", **TESTS},
            "python",
            {
                "setup": "python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt",
                "test": "python3 -m pytest -q",
                "lint": "ruff check .",
                "typecheck": "mypy .",
            },
        ),
        (
            {"api/pyproject.toml": "", "web/go.mod": "", "web/a_test.go": "", "api/test_a.py": "def test_a(): pass"},
            "unknown",
            {"test": "(cd api && python3 -m pytest -q) && (cd web && go test ./...)"},
        ),
    ],
)
def test_the_project_type_is_detected_by_its_files(tmp_path, files, kind, gates):
    """AL-8: project type by go.mod, package.json, Cargo.toml, pyproject.toml in that order, else unknown."""
    found = project_scan(detect_in_folder(lay_out(tmp_path, files)), {"PATH": ""})
    assert found.type == kind
    assert found.gates.items() >= gates.items()
    assert ("test" in found.gates) == ("test" in gates)


def test_agents_and_keys_are_listed_by_name_and_keys_are_never_shown(tmp_path, repository, monkeypatch, scaffold):
    (tmp_path / "bin").mkdir()
    claude = tmp_path / "bin" / "claude"
    claude.write_text("#!/bin/sh\ntouch was-run\n")
    claude.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    answer = scaffold("init")
    assert "  agents     claude\n" in answer.out
    assert "  keys       OPENAI_API_KEY\n" in answer.out
    assert "secret" not in answer.out + answer.err + (repository / ".scaffold.yaml").read_text()
    assert not (repository / "was-run").exists()


def test_the_configuration_is_all_comments_and_names_the_checks(repository, scaffold):
    lay_out(repository, {"pyproject.toml": PYPROJECT, **TESTS})
    answer = scaffold("init")
    assert answer.code == 0
    text = (repository / ".scaffold.yaml").read_text()
    assert all(not line or line.startswith("#") for line in text.splitlines())
    settings, checks = text.split("\n\n")[1], text.split("\n\n")[-1].partition("\n")[2]
    assert set(yaml.safe_load(uncommented(settings))) == {
        *("model", "tier", "agents", "budget_usd", "tiers"),
        *("approvals", "permissions", "sandbox"),
    }
    assert yaml.safe_load(uncommented(checks)) == {
        "quality_gates": {"test": "python3 -m pytest -q", "lint": "ruff check .", "typecheck": "mypy ."}
    }


def uncommented(text):
    return "\n".join(line.removeprefix("# ") for line in text.splitlines())


def test_what_was_found_is_shown_with_its_file_and_how_to_replace_it(repository, scaffold):
    """AL-8: checks that the project's own set-up runs have its command; one that it never runs only warns."""
    tox = "[testenv]\ncommands =\n  pytest tests\n  ruff check tests\n"
    lay_out(repository, {"pyproject.toml": PYPROJECT, "tox.ini": tox, **TESTS})
    answer = scaffold("init")
    lines = answer.out.splitlines()
    at = lines.index("  test       python3 -m pytest -q tests")
    assert lines[at : at + 8] == snapshot(
        [
            "  test       python3 -m pytest -q tests",
            "               tox.ini:3 runs `pytest tests`",
            "  lint       ruff check tests",
            "               tox.ini:4 runs `ruff check tests`",
            "  typecheck  mypy .",
            "               only warns: your own checks never run it",
            "               pyproject.toml:5 configures mypy",
            "  another command, or `off`: `scaffold config quality_gates.KIND COMMAND`; set-up commands: `setup`",
        ]
    )
    assert "#   lint: ruff check tests\n" in (repository / ".scaffold.yaml").read_text()
    shown = scaffold("init", "--json", "--dry-run").json["findings"]
    assert (shown["sources"], shown["advisory"]) == ({"test": "tox.ini", "lint": "tox.ini"}, ["typecheck"])


def test_existing_files_are_kept_without_force(repository, scaffold):
    file = lay_out(repository, {".scaffold.yaml": "tier: scout\n"}) / ".scaffold.yaml"
    assert scaffold("init").code == 0
    assert file.read_text() == "tier: scout\n"
    assert scaffold("init", "--force", "--dry-run").code == 0
    assert file.read_text() == "tier: scout\n"
    assert scaffold("init", "--force").err == f"wrote {file}\n"
    assert file.read_text() != "tier: scout\n"


def test_a_configuration_that_is_a_link_is_not_written(repository, scaffold):
    """BX-9: neither what it leads to, nor a file in its place."""
    outside = repository.parent / "mine"
    outside.write_text("mine")
    (repository / ".scaffold.yaml").symlink_to(outside)
    refused = scaffold("init", "--force")
    assert refused.code == 64
    assert "cannot be written: a symbolic link" in refused.err
    assert outside.read_text() == "mine"


def test_the_json_lists_the_findings_and_a_dry_run_writes_nothing(repository, scaffold):
    shown = scaffold("init", "--json", "--dry-run").json
    assert not (repository / ".scaffold.yaml").exists()
    assert shown["findings"] == {"type": "python", "gates": {}, "sources": {}, "advisory": [], "agents": [], "keys": []}
    assert (shown["configuration"], shown["written"]) == (str(repository / ".scaffold.yaml"), False)
    assert read_plan(shown["plan"], name="plan.yaml")


@pytest.mark.parametrize("files", [{}, {"pyproject.toml": PYPROJECT, **TESTS}])
def test_the_suggested_plan_is_sound(repository, scaffold, files):
    """BX-7: what it writes is not there yet."""
    lay_out(repository, {"NOTES.md": "", **files})
    text = scaffold("init", "--json", "--dry-run").json["plan"]
    plan, warnings = read_plan(text, name="plan.yaml")
    assert plan.actions[0].files == ("HOW_TO_TEST.md",)
    assert text.startswith("# Not tried: " if files else "version: 1")
    assert (warnings, lint(plan).findings) == ((), ())
    commands = [check.command for check in plan.actions[0].contract.commands]
    assert commands == (["python3 -m pytest -q"] if files else [])


def notes(answer):
    return [line.split(",")[0] for line in answer.out.splitlines() if line.startswith("  note")]


def test_what_is_not_committed_is_shown_but_said_not_to_count(repository, scaffold):
    """AL-28: a run starts from the last commit, so what it would use is found there."""
    lay_out(repository, {"pyproject.toml": "[project]\nname = 'x'\n", **TESTS})
    uncommitted = notes(scaffold("init", "--dry-run"))
    git(repository, "add", "-A")
    git(repository, "commit", "--quiet", "--message", "Tests")
    assert notes(scaffold("init", "--dry-run")) == []
    (repository / "ruff.toml").write_text("")
    answer = scaffold("init", "--dry-run")
    assert [*uncommitted, *notes(answer)] == snapshot(
        [
            "  note       these checks are in files that are not committed: commit them first",
            "  note       your uncommitted changes would change this; a run starts from the last commit",
        ]
    )
    assert "ruff" not in answer.out
    assert scaffold("init", "--dry-run", "--json").json["commit"] == git(repository, "rev-parse", "HEAD").strip()


def test_a_repository_without_a_commit_is_told_to_commit_first(tmp_path, scaffold, monkeypatch):
    """AL-28: a run would end with that error."""
    git(tmp_path, "init", "--quiet", "new")
    monkeypatch.chdir(tmp_path / "new")
    answer = scaffold("init", "--dry-run")
    assert "there is no commit yet" in " ".join(answer.out.split())
    assert "  git add -A && git commit" in answer.out.splitlines()[-3]


def test_missing_programs_are_named_before_anything_is_asked(repository, scaffold, monkeypatch):
    """AL-28: instead of failing later."""
    lay_out(repository, {"package.json": '{"scripts": {"lint": "x"}}', "pnpm-lock.yaml": ""})
    (repository.parent / "bin").mkdir()
    (repository.parent / "bin" / "git").symlink_to(shutil.which("git"))
    monkeypatch.setenv("PATH", str(repository.parent / "bin"))
    answer = scaffold("init", "--dry-run")
    assert [line for line in answer.out.splitlines() if "pnpm" in line] == snapshot(
        [
            "  setup      pnpm install --frozen-lockfile",
            "               pnpm-lock.yaml is the lock file of pnpm",
            "  lint       pnpm run lint",
            "  missing    `pnpm` is not installed, or not on PATH",
        ]
    )


def test_a_repository_without_a_commit_is_examined_all_the_same(tmp_path, home, monkeypatch, scaffold):
    git(tmp_path, "init", "--quiet")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    answer = scaffold("init", "--yes", "--json")
    assert (answer.code, answer.json["commit"], answer.json["tried"]) == (0, None, False)
    assert answer.json["checks"][0]["from"] == snapshot({"path": "test_a.py", "says": "has pytest tests", "line": 1})
