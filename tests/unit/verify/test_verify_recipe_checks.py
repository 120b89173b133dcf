"""Which scripts, targets and tasks of a project are gates, by what they run."""

import json

from inline_snapshot import snapshot

from scaffold.verify.gates.detection import detect_gates
from scaffold.verify.gates.projects.project_files import ProjectFiles


def found(files):
    return detect_gates(ProjectFiles(files, lambda path: files[path].encode()))


def scripts(**given):
    return {"package.json": json.dumps({"scripts": {name.replace("_", ":"): text for name, text in given.items()}})}


def ci(*commands):
    steps = "".join(f"      - run: {command}\n" for command in commands)
    return {".github/workflows/ci.yml": f"on: push\njobs:\n  a:\n    steps:\n{steps}"}


def named(files):
    """Return the command of each gate by its name, with a mark if it only warns."""
    return {gate.name: gate.command + " ?" * gate.advisory for gate in found(files).gates}


def test_scripts_that_check_are_gates_whatever_they_are_called():
    """AL-8, AL-9: by the programs that they run, of the scripts that they start too; of two that do the same, one."""
    checks = scripts(
        check="npm run check:type && npm run check:lint && npm run check:format",
        check_format="prettier --check .",
        check_lint="cross-env CI=1 eslint .",
        check_type="npm run check:type:js && run-s check:type:ts",
        check_type_js="tsc -p tsconfig.js.json",
        check_type_ts="tsd && tsc -p tsconfig.ts.json",
        fix="npm run fix:lint && npm run fix:format",
        fix_format="prettier --write .",
        fix_lint="eslint --fix .",
    )
    expected = {
        "lint (check:format)": "npm run check:format",
        "lint (check:lint)": "npm run check:lint",
        "typecheck (check:type)": "npm run check:type",
    }
    assert named(checks) == expected
    assert named({**checks, **ci("npm run check")}) == expected
    only = named({**checks, **ci("npm run check:lint", "npx tsc -p tsconfig.js.json", "npm run fix")})
    assert [name for name, command in only.items() if command.endswith(" ?")] == [
        "lint (check:format)",
        "typecheck (check:type:ts)",
    ]
    assert found(checks).tools["lint (check:format)"] == "prettier"
    spread = scripts(test='pnpm run "/^test:.*/"', test_lint="biome ci", test_types="tsc", test_spec="vitest run")
    assert named({**spread, "pnpm-lock.yaml": "", "a.test.ts": ""}) == {
        "test": "pnpm run test:spec",
        "lint (test:lint)": "pnpm run test:lint",
        "typecheck (test:types)": "pnpm run test:types",
    }
    ours = scripts(check_links="node links.js", check_deploy="node deploy.js", docs="node docs.js")
    assert named(ours) == {}
    assert named({**ours, **ci("npm run check:links", "npm run docs")}) == {"lint (check:links)": "npm run check:links"}
    assert list(named({**scripts(check_links="node a.js"), **ci("npm run check:links")})) == ["lint (check:links)"]


def test_what_changes_files_or_does_not_end_is_no_gate():
    """AL-9: a formatter only in the mode in which it checks."""
    rows = [
        (scripts(lint="eslint --fix src"), {"lint": "npx --no-install eslint src"}),
        (scripts(lint="prettier --write ."), {"lint": "npx --no-install prettier . --check"}),
        (scripts(lint="biome lint --write .", lint_check="biome lint ."), {"lint (lint:check)": "npm run lint:check"}),
        (scripts(lint="eslint --fix . && prettier -w ."), {}),
        (scripts(format="prettier --write .", format_all="npm run format", style="prettier src"), {}),
        (scripts(lint="nodemon -x eslint .", build="vite", test="jest --watch"), {}),
        (scripts(typecheck="tsc -p a.json --watch"), {"typecheck": "npx --no-install tsc -p a.json"}),
        (scripts(build="vite build", test="npm run dev", dev="next dev", test_ci="jest"), {"build": "npm run build"}),
        (scripts(lint="npm run lint"), {}),
        (scripts(lint="cd web && npm run lint"), {"lint": "npm run lint"}),
        ({**scripts(format="unknownfmt"), **ci("npm run format")}, {}),
        (scripts(fix="yarn style --fix", style="eslint ."), "lint (style)"),
        (scripts(format="prettier .", format_check="npm run format -- --check"), "lint (format:check)"),
        ({"Makefile": "lint:\n\tblack .\nformat-check: ; black --check .\nserve:\n\tvite\n"}, "lint (format-check)"),
        ({"Makefile": "test: watch\nwatch:\n\tpytest --watch\nlint: style\nstyle:\n\tisort .\n"}, {}),
    ]
    for files, expected in rows:
        assert (list(named(files)) == [expected]) if isinstance(expected, str) else (named(files) == expected), files


def test_the_type_check_reads_the_project_that_the_repository_compiles():
    """AL-8: not whatever `tsconfig.json` says."""
    rows = [
        (scripts(test="tsc -p tsconfig.spec.json && jest"), "npx --no-install tsc --noEmit -p tsconfig.spec.json"),
        (scripts(build="rimraf dist && tsc --project tsconfig.dist.json"), "tsc --noEmit --project tsconfig.dist.json"),
        ({**scripts(build="tsc -b && vite build"), "tsconfig.json": "{}"}, "npx --no-install tsc -b"),
        ({**scripts(build="tsc -b && vite build", types="vue-tsc -b"), "tsconfig.json": "{}"}, "npm run types"),
        ({**scripts(x="tsc -w"), "tsconfig.json": "{}"}, "npx --no-install tsc --noEmit"),
        ({**scripts(), **ci("npx tsc -p tsconfig.ci.json")}, "npx --no-install tsc --noEmit -p tsconfig.ci.json"),
    ]
    for files, command in rows:
        [gate] = [gate for gate in found(files).gates if gate.kind == "typecheck"]
        assert gate.command.endswith(command), files


def test_targets_and_tasks_are_gates_where_nothing_else_names_any():
    """AL-8, AL-9: of makefiles, justfiles and go-task's files."""
    task = """\
vars: {SRC: src}
tasks:
  lint: {deps: [style], cmds: ["ruff check {{.SRC}}"]}
  style: [black --check .]
  types: {cmds: [{task: mypy}]}
  mypy: "mypy {{.SRC}}"
  dev: {cmd: vite}
"""
    rows = [
        ("justfile", "s := 'lib'\n@lint *args:\n  ruff check {{s}}\nfmt-check:\n  shfmt -d .\nfmt:\n  shfmt -w .\n"),
        ("Taskfile.yml", task),
        ("Makefile", "lint: style\n\t$(MAKE) types\nstyle:\n\t@shellcheck run.sh\ntypes:\n\tmypy .\n"),
    ]
    assert [named({name: text, "run.sh": ""}) for name, text in rows] == snapshot(
        [
            {"lint": "just lint", "lint (fmt-check)": "just fmt-check"},
            {"lint": "task lint", "typecheck": "task types"},
            {"lint": "make lint", "typecheck": "make types"},
        ]
    )
    assert named({"Taskfile.yml": "tasks: {lint: 'ruff check lib'}", "package.json": "{}"})["lint"] == "ruff check lib"


def test_each_program_that_checks_and_that_the_project_runs_is_a_gate():
    """AL-8: from tox, nox, CI and task files, without what tells it how to print."""
    python = {
        "pyproject.toml": "[tool.ruff]",
        "a.py": "",
        "noxfile.py": "def f(s):\n  s.run('black', '--check', '.')\n",
    }
    tox = "[testenv]\ncommands =\n  ruff check .\n  ruff format . --diff\n  isort .\n  black $HERE\n  codespell\n"
    assert named({**python, "tox.ini": tox}) == snapshot(
        {
            "lint": "ruff check .",
            "lint (ruff format)": "ruff format . --check",
            "lint (codespell)": "codespell",
            "lint (black)": "black --check .",
        }
    )
    assert named({"Cargo.toml": "", **ci("cargo fmt --all -- --check", "cargo clippy")})["lint (cargo fmt)"] == (
        "cargo fmt --all -- --check"
    )


def test_recipes_that_start_each_other_are_read_within_limits():
    """AL-8: as all files of a repository."""
    every = {f"a{number}": 'pnpm run "/^a.*/"' for number in range(600)}
    again = {f"b{number}": " && ".join(f"npm run b{other}" for other in range(12)) for number in range(100)}
    assert named({**scripts(lint="eslint .", **every, **again), "pnpm-lock.yaml": ""}) == {"lint": "pnpm run lint"}
