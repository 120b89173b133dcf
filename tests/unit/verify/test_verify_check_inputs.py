"""Which paths decide checks."""

from inline_snapshot import snapshot

from scaffold.git.commits import PathChange
from scaffold.verify.paths.check_inputs import BaseLayout, check_input_reason, launched_commands
from scaffold.verify.paths.conventions import is_test, is_test_file

BASE = frozenset({"calc.py", "tests/test_calc.py", "Makefile", "check.sh", "main.py"})


def why(path, kind="A", *, base=BASE, commands=()):
    return check_input_reason(PathChange(path, kind), BaseLayout(base, commands))


def test_existing_tests_and_their_data_are_protected_and_new_ones_are_allowed():
    """AL-9: by the conventions of pytest, unittest, jest, vitest, go and cargo."""
    paths = [
        *("test_a.py", "pkg/a_test.py", "app/tests.py", "tests/data/big.json", "test/x.txt", "a_test.go"),
        *("web/a.test.ts", "web/a.spec.jsx", "web/__tests__/a.js", "web/__snapshots__/a.snap", "tests/it.rs"),
        *("pkg/testdata/golden.txt", "src/test/java/ATest.java", "spec/models/a_spec.rb"),
        *("spec/calcSpec.js", "packages/a/specs/help.ts", "src/playerSpec.js", "test.js", "web/tests.mjs", "test-a.js"),
    ]
    assert [
        path
        for path in paths
        if not is_test(path)
        or {kind: bool(why(path, kind)) for kind in "AMDT"} != {"A": False, "M": True, "D": True, "T": True}
    ] == []


def test_a_name_that_only_resembles_a_test_is_none():
    paths = [
        *("contest.py", "latest.py", "src/testing.py", "docs/test.md", "attest/a.py", "a.ts", "spec.js", "latest.js"),
        *("spec/openapi.yaml", "specs/a.md", "spec/a.py", "src/spec/index.ts", "src/PodSpec.ts"),
        "lib/commands/test.js",
    ]
    assert [path for path in paths if is_test(path) or why(path, "M") is not None] == []


def test_files_with_an_effect_by_presence_are_neither_added_nor_changed():
    """AL-9: configuration of runners, and files that interpreters and runners load automatically."""
    paths = [
        *("conftest.py", "pkg/conftest.py", "sitecustomize.py", "pkg/usercustomize.py", "sitecustomize/__init__.py"),
        *("evil.pth", "deep/evil.pth", "evil.egg-info/entry_points.txt", "x-1.dist-info/entry_points.txt"),
        *("node_modules/jest/index.js", ".venv/lib/x.py", "calc.pyc", "__pycache__/calc.cpython-311.pyc"),
        *(".env", ".env.test", "jest.config.js", "vitest.config.ts", ".cargo/config.toml", ".coveragerc"),
        *("sub/mypy.ini", "ruff.toml", "tsconfig.json", "eslint.config.mjs", "__mocks__/fs.js", ".npmrc"),
        *("spec/support/jasmine.json", ".taprc", ".labrc.js", "bunfig.toml", ".mocharc.cjs", "ava.config.mjs"),
        *("node_modules", ".venv", "src/setupTests.ts", "build.rs", ".python-version"),
    ]
    assert [path for path in paths if not why(path, "A") or not why(path, "M")] == []


def test_configuration_is_free_in_a_repository_without_tests():
    base = frozenset({"calc.py"})
    expected = {"jest.config.js": True, "ruff.toml": True, "tsconfig.json": True, "__mocks__/a.js": False}
    assert {path: why(path, base=base) is None for path in expected} == expected
    assert [path for path in expected if not why(path, "M", base=base | {path})] == []
    assert why("conftest.py", base=base)
    assert why("sitecustomize.py", base=base)


def test_makefiles_and_scripts_are_protected_if_a_check_uses_them():
    """AL-9: a makefile that no check uses is free, and so is code that a check only runs."""
    rows = [
        ("Makefile", "M", ["make test"], True),
        ("Makefile", "M", ["pytest"], False),
        ("GNUmakefile", "A", ["make test"], True),
        ("sub/Makefile", "A", ["make test"], False),
        ("rules.mk", "M", ["make test"], True),
        ("justfile", "A", ["just test"], False),
        ("check.sh", "M", ["./check.sh"], True),
        ("check.sh", "M", ["sh check.sh --all"], True),
        ("check.sh", "M", ["pytest"], False),
        ("main.py", "M", ["python main.py"], False),
        ("verify.py", "M", ["python verify.py"], True),
        ("verify.py", "A", ["python verify.py"], False),
        ("accept.py", "M", ["python -m accept"], True),
        ("src/app/checks/__main__.py", "M", ["cd web && python3 -W error -m app.checks --all"], True),
        ("accept.py", "A", ["python -m accept"], False),
        ("app/__main__.py", "M", ["python -m app"], False),
        ("other/verify.py", "M", ["python -m tools.verify"], False),
        ("tools/accept", "M", ["sh tools/accept"], True),
        ("tools/run", "M", ["sh -e tools/run"], True),
        ("tools/run", "M", ["tools/run"], False),
        ("tools/accept.sh", "M", ["cd tools && ./accept.sh"], True),
        ("tools/accept.sh", "M", ["sh accept.sh"], False),
        ("tools/accept.sh", "M", ['sh "$PWD/tools/accept.sh"'], True),
        ("tools/accept.sh", "M", ["sh ./tools/../tools/accept.sh"], True),
        ("verify.py", "M", ["python src/verify.py"], False),
        ("runtests.py", "M", ["python runtests.py"], True),
        ("selftest.py", "M", ["python -Im selftest"], True),
        ("accept.py", "M", ["python -maccept"], True),
        ("config.toml", "A", [], False),
        ("README.md", "M", [], False),
    ]
    assert [
        (path, kind, commands, bool(why(path, kind, commands=commands))) for path, kind, commands, _ in rows
    ] == rows


def test_files_in_which_a_runner_found_tests_are_tests():
    """AL-9: configuration may give tests any name."""
    outset = BaseLayout(BASE, (), tests={"specs/check_a.py"})
    assert check_input_reason(PathChange("specs/check_a.py", "M"), outset) == snapshot(
        "is an existing test or test data"
    )
    assert check_input_reason(PathChange("specs/check_b.py", "A"), outset) is None
    assert not BaseLayout({"specs/check_a.py"}, (), tests={"specs/check_a.py"}).has_no_tests


def test_helpers_and_programs_are_no_test_files_to_run_alone():
    tests = ["test.js", "spec/calcSpec.js", "web/test.mjs"]
    others = [
        *("lib/commands/test.js", "test/test-utils.js", "spec/helper.js", "testing.md", "src/attest.py"),
        *("contest.go", "src/a.rs", "tests/data.json", "latest.ts"),
    ]
    assert [path for path in (*tests, *others) if is_test_file(path)] == tests


def test_files_that_checks_load_are_protected_whatever_they_are_called():
    """AL-9: an option names no part of the program."""
    outset = BaseLayout(BASE, (), loaded={"calc.py"})
    assert check_input_reason(PathChange("calc.py", "M"), outset) == snapshot("is loaded by what checks the work")
    assert check_input_reason(PathChange("main.py", "M"), outset) is None


def test_a_new_module_must_not_shadow_the_one_a_check_runs():
    """AL-9: Python takes the first it finds."""
    base = frozenset({"tools/accept.py"})
    assert why("accept.py", base=base, commands=["PYTHONPATH=tools python -m accept"])
    assert why("accept/__main__.py", base=base, commands=["PYTHONPATH=tools python -m accept"])
    assert why("other.py", base=base, commands=["python -m accept"]) is None
    assert why("accept.py", base=frozenset({"tools/other.py"}), commands=["python -m accept"]) is None


def test_vendored_go_packages_are_protected():
    """AL-9: tests import their assertions from there."""
    expected = {
        ("vendor/a.b/assert/assert.go", "M"): True,
        ("vendor/a.b/assert/assert.go", "D"): True,
        ("vendor/a.b/new/new.go", "A"): False,
        ("vendor/modules.txt", "A"): True,
        ("vendor/modules.txt", "M"): False,
        ("web/vendor/x.go", "M"): False,
        ("sub/vendor/a.b/x.go", "M"): True,
    }
    assert {
        (path, kind): bool(why(path, kind, base=frozenset({"go.mod", "sub/go.mod", "a_test.go"})))
        for path, kind in expected
    } == expected


def test_commands_in_makefiles_are_resolved_from_the_top_and_their_folder():
    """AL-9: scripts run scripts."""
    assert {"tools/run.py", "sub/tools/run.py", "judge.py", "sub/judge.py", "sub/judge/__main__.py"} <= set(
        launched_commands("sub/Makefile", "accept:\n\t@tools/run.py --all\n\tpython -m judge\n")
    )
    assert "cd . && sh inner" in launched_commands("run", "cd web; . ./inner\n")


def test_a_new_package_around_existing_scripts_of_tests_is_refused():
    """BX-5: those would import the package itself by the name that it takes."""
    base = frozenset({"package.json", "test/calc.test.js", "web/app.js", "tests/test_calc.py"})
    assert why("test/package.json", base=base)
    assert why("web/package.json", base=base) is None
    assert why("tests/package.json", base=base) is None
    assert why("package.json", base=base - {"package.json"})
