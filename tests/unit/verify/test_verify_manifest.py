"""Which parts of manifests decide checks."""

import json

from inline_snapshot import snapshot

from scaffold.verify.paths.manifest import LOCAL_PART, changed_check_settings, has_settings

PROJECT = '[project]\nname = "calc"\ndependencies = ["click"]\n\n[tool.pytest.ini_options]\ntestpaths = ["tests"]\n'
PACKAGE = {"name": "web", "scripts": {"test": "npm run suite", "suite": "jest", "start": "node ."}, "jest": {}}
CARGO = '[package]\nname = "x"\n\n[dependencies]\nserde = "1"\n'
GO = "module x\n\ngo 1.22\n\nrequire a.b/c v1.0.0\n"


def parts(path, before, after, **more):
    return changed_check_settings(
        path, before if before is None else before.encode(), after if after is None else after.encode(), **more
    )


def package(**changed):
    return json.dumps(PACKAGE | changed)


def test_a_new_dependency_or_command_is_allowed():
    """AL-9: only the deciding sections of a manifest count."""
    rows = [
        ("pyproject.toml", PROJECT, PROJECT.replace('"click"', '"click", "rich"')),
        ("pyproject.toml", PROJECT, PROJECT + '\n[project.scripts]\ncalc = "calc:main"\n'),
        ("pyproject.toml", PROJECT, PROJECT + '\n[dependency-groups]\ndev = ["ruff"]\n[tool.uv]\nmanaged = true\n'),
        ("pyproject.toml", PROJECT, "# said again\n" + PROJECT),
        ("setup.cfg", "[metadata]\nname = x\n", "[metadata]\nname = y\n[options]\ninstall_requires = click\n"),
        ("setup.py", "setup()", "setup(name='x')"),
        ("package.json", package(), package(dependencies={"left-pad": "1"})),
        ("package.json", package(), package(scripts=PACKAGE["scripts"] | {"serve": "node s.js", "lint": "eslint ."})),
        ("package.json", package(), package(scripts=PACKAGE["scripts"] | {"start": "node server.js"})),
        ("package.json", package(imports={"#a": "./a.js"}), package(imports={"#a": "./a.js", "#b": "./b.js"})),
        ("deno.json", '{"imports": {"a": "jsr:a@1"}}', '{"imports": {"a": "jsr:a@2", "b": "jsr:b"}, "version": "2"}'),
        ("deno.json", '{"tasks": {"test": "x"}}', '{"tasks": {"test": "x", "dev": "y"}}'),
        ("package.json", package(), package(dependencies={"left": "~1.2.3", "tgz": "https://x.org/y.tgz"})),
        ("package.json", package(), package(devDependencies={"own": "workspace:*", "it": "user/it"})),
        ("pyproject.toml", PROJECT, PROJECT + '\n[tool.poetry.dependencies]\npath = "^16"\nx = "~1.2"\n'),
        ("pyproject.toml", PROJECT.replace('"click"', '"x @ ./x"'), PROJECT),
        (
            "requirements.txt",
            "click\n",
            "click\n-e .[dev]  # itself\n-r more.txt\nx @ https://x.org/x-1-py3-none-any.whl\n",
        ),
        (
            "requirements.txt",
            "",
            "--index-url https://x.org/simple\n-e git+https://x.org/y.git#egg=y\nrich>=1,<2 ; x\n",
        ),
        ("requirements.txt", "./lib\n", "click\n./lib\n"),
        ("Cargo.toml", CARGO, CARGO + 'rand = "1"\n'),
        ("go.mod", GO, GO + "require (\n\tx.y/z v1.2.3 // indirect\n)\n"),
    ]
    assert [
        (path, before, after)
        for path, before, after in rows
        if not has_settings(path) or parts(path, before, after) != ()
    ] == []


def test_sections_that_decide_checks_are_named():
    """AL-9: with what tells runners which tests there are, what they load, and which of it counts."""
    rows = [
        ("pyproject.toml", PROJECT, PROJECT + 'addopts = "-k nothing"\n', "[tool.pytest] addopts"),
        ("pyproject.toml", PROJECT, PROJECT.replace('["tests"]', '["x"]'), "[tool.pytest] testpaths"),
        ("pyproject.toml", PROJECT, None, "[tool.pytest] testpaths"),
        ("pyproject.toml", PROJECT, PROJECT + "\n[tool.coverage.run]\nbranch = true\n", "[tool.coverage]"),
        ("pyproject.toml", PROJECT, PROJECT + "\n[tool.ruff]\nexclude = ['*']\n", "[tool.ruff]"),
        ("pyproject.toml", PROJECT, PROJECT + "\n[build-system]\nrequires = []\n", "[build-system]"),
        (
            "pyproject.toml",
            PROJECT,
            PROJECT + '\n[project.entry-points.pytest11]\nevil = "evil"\n',
            "[project.entry-points.pytest11]",
        ),
        (
            "pyproject.toml",
            PROJECT,
            PROJECT + '\n[tool.poetry.plugins.pytest11]\nevil = "evil"\n',
            "[tool.poetry.plugins.pytest11]",
        ),
        ("pyproject.toml", PROJECT, PROJECT.replace('"click"', '"pytest @ file:///x/fake"'), LOCAL_PART),
        ("pyproject.toml", PROJECT, PROJECT + '\n[dependency-groups]\ndev = ["x @ ./x"]\n', LOCAL_PART),
        ("pyproject.toml", PROJECT, PROJECT + '\n[tool.poetry.group.dev.dependencies]\nx = {path = "x"}\n', LOCAL_PART),
        (
            "pyproject.toml",
            PROJECT,
            PROJECT + '\n[tool.pdm.dev-dependencies]\nd = ["-e file:///x#egg=x"]\n',
            LOCAL_PART,
        ),
        ("requirements.txt", "click\n", "click\n./tools/checks-2.0.whl\n", LOCAL_PART),
        ("requirements/dev.txt", "", "tools/checks-2.0-py3-none-any.whl\n", LOCAL_PART),
        ("dev-requirements.in", None, "-e tools\n", LOCAL_PART),
        ("constraints.txt", None, "checks @ file:///x/y\n", LOCAL_PART),
        ("setup.cfg", "", "[options]\ninstall_requires =\n  x @ file:///x\n", LOCAL_PART),
        ("package.json", package(), package(devDependencies={"chai": "file:./chai"}), LOCAL_PART),
        ("package.json", package(), package(overrides={"mocha": {"chai": "link:../chai"}}), LOCAL_PART),
        ("package.json", package(imports={"#a": "./a.js"}), package(imports={"#a": "./b.js"}), '"imports" #a'),
        ("package.json", package(imports={"#*": "./*.js"}), package(imports={"#a": "./b.js"}), '"imports" #a'),
        ("pyproject.toml", PROJECT, PROJECT + '\n[tool.uv.sources]\npytest = {path = "x"}\n', "[tool.uv.sources]"),
        ("pyproject.toml", PROJECT, "[", "the whole file, which cannot be parsed"),
        ("pyproject.toml", "", "[tool.pytest.ini_options]\n", "[tool.pytest]"),
        ("pytest.ini", None, "", "[pytest]"),
        (".pytest.ini", None, "# nothing\n", "[pytest]"),
        ("tox.ini", "[tox]\n", "[tox]\n[pytest]\n", "[pytest]"),
        ("setup.cfg", "", "[tool:pytest]\n", "[tool:pytest]"),
        ("pytest.ini", None, "[pytest]\naddopts = --co\n", "[pytest] addopts"),
        ("tox.ini", None, "[pytest]\npython_files = x\n", "[pytest] python_files"),
        ("setup.cfg", "", "[tool:pytest]\naddopts = --co\n", "[tool:pytest] addopts"),
        ("setup.cfg", "", "[options.entry_points]\npytest11 = evil\n", "[options.entry_points] pytest11"),
        ("setup.py", "setup()", "setup(entry_points={'pytest11': ['e=e']})", "pytest11"),
        ("package.json", package(), package(scripts={**PACKAGE["scripts"], "test": "true"}), '"scripts" test'),
        ("package.json", package(), package(scripts={**PACKAGE["scripts"], "suite": "true"}), '"scripts" suite'),
        ("package.json", package(), package(scripts={**PACKAGE["scripts"], "pretest": "rm x"}), '"scripts" pretest'),
        ("package.json", package(), package(scripts={"suite": "jest"}), '"scripts" test'),
        ("package.json", package(), package(jest={"testMatch": []}), '"jest"'),
        ("package.json", package(), "[]", '"jest"'),
        ("deno.json", '{"imports": {"a": "jsr:a@1"}}', '{"imports": {"a": "./a.ts"}}', '"imports" a'),
        ("deno.json", '{"tasks": {"test": "x"}}', '{"tasks": {"test": "y"}}', '"scripts" test'),
        ("deno.jsonc", "{}", '{"test": {"exclude": ["a.ts"]}}', '"test"'),
        ("Cargo.toml", CARGO, CARGO + "\n[lib]\ntest = false\n", "[lib]"),
        ("Cargo.toml", CARGO, CARGO.replace("[dep", "autotests = false\n[dep"), "[package] autotests"),
        ("Cargo.toml", CARGO, CARGO + '\n[workspace]\nexclude = ["x"]\n', "[workspace] exclude"),
        ("go.mod", GO, GO + "replace a.b/c => ./fake\n", "settings other than required packages"),
    ]
    assert [
        (path, before, after, named) for path, before, after, named in rows if named not in parts(path, before, after)
    ] == []


def test_the_first_manifest_of_a_repository_without_tests_may_configure_but_not_weaken():
    assert parts("pyproject.toml", None, PROJECT + "\n[build-system]\nrequires = []\n", untested=True) == ()
    bent = PROJECT + 'addopts = "-p evil"\n'
    assert parts("pyproject.toml", None, bent, untested=True) == ("[tool.pytest] addopts",)
    assert parts("package.json", None, package(), untested=True) == ()


def test_a_repository_without_tests_may_get_test_configuration_but_keeps_its_own():
    """BX-5: new tests may bring the configuration they need."""
    bare = '[project]\nname = "calc"\n\n[tool.ruff]\nline-length = 88\n'
    given = f'{bare}\n[tool.pytest.ini_options]\ntestpaths = ["tests"]\n'
    assert parts("pyproject.toml", bare, given, untested=True) == ()
    assert parts("pyproject.toml", bare, given.replace("88", "99"), untested=True) == ("[tool.ruff]",)
    assert parts("pyproject.toml", bare, f'{given}addopts = "-p evil"\n', untested=True) == ("[tool.pytest] addopts",)


def test_a_manifest_that_is_not_text_counts_as_a_whole():
    assert changed_check_settings("package.json", b"\xff", b"\xfe") == snapshot(
        ("the whole file, which cannot be parsed",)
    )
    assert changed_check_settings("package.json", b"\xff", b"\xff") == ()
    assert changed_check_settings("package.json", b"[" * 100_000, b"{}") == snapshot(
        ("the whole file, which cannot be parsed",)
    )


def test_a_script_used_by_a_check_decides_whatever_its_name():
    """AL-9: `npm run accept` does what the script of that name says."""
    before, after = package(scripts={"accept": "node a.js"}), package(scripts={"accept": "true"})
    assert parts("package.json", before, after) == ()
    assert parts("package.json", before, after, asked={"npm", "run", "accept"}) == ('"scripts" accept',)


def test_the_name_of_an_existing_package_decides_what_its_tests_import():
    """BX-5: Node finds a package by its own name before an installed one."""
    assert parts("package.json", package(), package(name="chai")) == ('"name"',)
    assert parts("package.json", "{}", '{"name": "chai"}') == ('"name"',)
    assert parts("package.json", None, '{"name": "chai"}') == ()
    assert parts("package.json", '{"name": "chai"}', None) == ()
