"""Which files commands and configurations load, and which they test."""

from scaffold.verify.paths.loaded_files import files_configured_by, files_named_by, is_configuration, reached_commands

PATHS = frozenset(
    {
        *("setup.js", "etc/base.toml", "etc/eslint.js", "etc/plugin.py", "src/index.js", "src/a.js", "README.md"),
        *("web/setup.js", "checks/add.js", "checks/deep/sub.js", "run-checks.js", "requirements.txt", "package.json"),
    }
)


def test_the_values_of_options_that_load_files_are_found():
    """AL-9: a short option means that for some programs alone."""
    expected = {
        "node --require ./setup.js --test": {"setup.js"},
        "node --require=./setup src/index.js": {"setup.js"},
        "cross-env NODE_OPTIONS='--import ./setup.js' mocha": {"setup.js"},
        "NODE_OPTIONS=--require=./setup.js tape": {"setup.js"},
        "npx mocha -r setup.js spec": {"setup.js"},
        "tsc && node \\\n  -r ./setup.js": {"setup.js"},
        "ruff check --config etc/base.toml .": {"etc/base.toml"},
        "eslint -c etc/eslint.js src/a.js": {"etc/eslint.js"},
        "python -m pytest -p etc.plugin": {"etc/plugin.py"},
        "pytest -pplugin -p no:cacheprovider": {"etc/plugin.py"},
        "jest --setupFiles '<rootDir>/setup.js'": {"setup.js"},
        "cp -r src/index.js dist; mkdir -p setup.js; pip install -r requirements.txt; grep -c x src/a.js": set(),
        "python -c 'import pytest' src/a.js": set(),
        "node src/index.js --require": set(),
        "node ./setup.js": set(),
        "tsc -p src && tsc -p . && node -r . src/a.js": set(),
        "mypy --config-file package.json": set(),
    }
    assert {command: files_named_by("", command, PATHS).loaded for command in expected} == expected


def test_a_file_is_named_relative_to_the_folder_of_the_command():
    assert files_named_by("web", "node -r ./setup.js --test", PATHS).loaded == {"web/setup.js"}
    assert files_named_by("sub", "node -r ./setup.js --test", PATHS).loaded == {"setup.js"}


def test_the_arguments_of_test_runners_are_tests():
    """AL-9: not those of linters, nor what a script of the project may take for the program."""
    expected = {
        "mocha checks/**/*.js": {"checks/add.js", "checks/deep/sub.js"},
        "tape 'checks/*.{js,ts}' | tap-spec": {"checks/add.js"},
        "node run-checks.js checks/*.js": {"checks/add.js"},
        "c8 --include src/*.js node --test checks/add.js": {"checks/add.js"},
        "mocha --package package.json --bail checks/add.js": {"checks/add.js"},
        "node run-checks.js src/index.js src/*.js": set(),
        "node src/index.js checks/*.js": set(),
        "eslint src/*.js checks/*.js && prettier --check src/a.js": set(),
        "mocha src": set(),
        "eslint lib/tap.js src/*.js": set(),
        "node node_modules/mocha/bin/_mocha.js checks/add.js": {"checks/add.js"},
        "jest --findRelatedTests src/a.js": set(),
        "node --test": set(),
    }
    assert {command: files_named_by("", command, PATHS).tests for command in expected} == expected


def test_the_files_that_a_configuration_loads_are_found():
    """AL-9: whatever they are called."""
    rows = [
        ("pyproject.toml", '[tool.ruff]\nextend = "etc/base.toml"\n', {"etc/base.toml"}),
        ("pyproject.toml", '[project]\nreadme = {file = "README.md"}\n', set()),
        ("pyproject.toml", 'addopts = ["-p", "etc.plugin"]\n', {"etc/plugin.py"}),
        ("pytest.ini", "[pytest]\naddopts =\n    -q\n    -p etc.plugin\ntestpaths = a\n", {"etc/plugin.py"}),
        ("setup.cfg", "[metadata]\nlong_description = file: README.md\n", set()),
        ("package.json", '{"jest": {"setupFiles": ["./setup.js"]}, "main": "src/index.js"}', {"setup.js"}),
        ("package.json", '{"exports": {"require": "./src/index.js"}}', set()),
        (
            "jest.config.js",
            "module.exports = {\n  setupFilesAfterEnv: [\n    '<rootDir>/setup.js',\n  ],\n}",
            {"setup.js"},
        ),
        ("vitest.config.ts", "export default { test: { globalSetup: './setup.js' } }", {"setup.js"}),
        ("web/.mocharc.yml", "require:\n  - ./setup\n  - x\nspec: src/a.js\n", {"web/setup.js"}),
        (".mocharc.json", '{"file": "./src/a.js"}', {"src/a.js"}),
        (".eslintrc.json", '{"extends": ["x", "./etc/eslint.js"]}', {"etc/eslint.js"}),
        ("jest.config.js", "class A extends B {}\nmoduleNameMapper: {'^calc$': './src/index.js'}", set()),
    ]
    assert [
        (path, text, loaded)
        for path, text, loaded in rows
        if not is_configuration(path) or files_configured_by(path, text, PATHS) != loaded
    ] == []


def test_only_the_commands_that_a_check_reaches_count():
    """AL-9: `npm start` and `make run` run the program."""
    scripts = '{"scripts": {"pretest": "a", "test": "npm run unit:x", "unit:x": "b", "start": "c --config d"}}'
    assert reached_commands("web/package.json", scripts, ["npm", "test"]) == ("a", "npm run unit:x", "b")
    assert reached_commands("package.json", "[]", ["test"]) == ()
    rules = "test: unit\n\tpytest -c x\n\nunit:\n\tmocha\nrun:\n\tapp --config d\n"
    assert reached_commands("Makefile", rules, ["make", "test"]) == ("\tpytest -c x\n\n", "\tmocha\n")
    assert reached_commands("run.sh", "pytest", ["sh"]) == ("pytest",)
    assert reached_commands("Taskfile.yml", "run: app --config d", ["task"]) == ()
