"""Files that git ignores and that builds make inside packages, in the worktrees of checks."""

import pytest

from integration.verify.builders import EnvironmentSetup, check_output
from scaffold.git import commits
from scaffold.verify.environment.generated_files import ignored_module, may_be_input, version_files
from scaffold.verify.environment.later_commit import environment_of_commit
from scaffold.verify.gates.projects.project_files import ProjectFiles

CODE = {
    "pyproject.toml": '[tool.hatch.build.hooks.vcs]\nversion-file = "src/calc/_version.py"\n',
    "src/calc/__init__.py": "from calc._version import version\n",
    "src/calc/words.po": "msgid\n",
    "src/calc/fast.py": "FROM = 'source'\n",
    ".gitignore": ".venv\n_version.py\n*.mo\n*.so\nbuild\ngenerated\nlocal*.py\n__pycache__\n_made\n",
}
BUILD = (
    "mkdir -p .venv/bin build src/calc/__pycache__ src/calc/_made && touch .venv/bin/tool build/x.py .venv/x.py && "
    "echo run >> ../builds && echo 'version = 5' > src/calc/_version.py && cp src/calc/words.po src/calc/words.mo && "
    "echo made > src/calc/_made/parser.py && touch src/calc/fast.cpython-311.so src/calc/_c.so src/calc/__pycache__/x"
)
VERSION = "PYTHONPATH=src python3 -c 'import calc; print(calc.version)'"


@pytest.fixture
async def project(harness, tmp_path):
    """A package that cannot be imported without a file that its build makes."""
    made = EnvironmentSetup(harness, tmp_path)
    await made.commit(CODE)
    return made


async def fitting_environment(git, environment, made_at, commit):
    """Return the environment for a later commit."""
    changes = await commits.path_changes(git, made_at, commit)
    return await environment_of_commit(environment, git, changes, made_at=made_at, commit=commit)


def targets(files):
    return [file.target for file in files]


async def test_files_that_a_setup_makes_inside_packages_are_in_each_checkout(project):
    """AL-10: otherwise the package cannot be imported there, and no gate can judge."""
    environment = await project.prepared(BUILD)
    assert targets(environment.files) == ["src/calc/_version.py"]
    # A compiled form of a module would hide what the work changes in its source.
    assert targets(environment.built) == ["src/calc/_c.so", "src/calc/_made/parser.py", "src/calc/words.mo"]
    async with project.tree(environment) as tree:
        assert await check_output(tree, VERSION) == "5"
        assert await check_output(tree, "cat src/calc/words.mo") == "msgid"
        assert await check_output(tree, "git status --porcelain") == ""


@pytest.mark.slow
async def test_built_files_are_made_again_only_from_other_sources(project):
    builds = project.cache / "environments" / "builds"
    await project.prepared(BUILD)
    await project.commit({"src/calc/__init__.py": "from calc._version import version\nMORE = 1\n"})
    await project.prepared(BUILD)
    assert len(builds.read_text().split()) == 1
    await project.commit({"src/calc/words.po": "msgid other\n"})
    environment = await project.prepared(BUILD)
    assert len(builds.read_text().split()) == 2
    async with project.tree(environment) as tree:
        assert await check_output(tree, "cat src/calc/words.mo") == "msgid other"


async def test_version_files_and_compiled_files_of_the_users_checkout_are_copied_but_no_others(project):
    """AL-10: the user's editable installation made them; ignored settings are the user's own."""
    await project.harness.sh(f"{BUILD} && echo 'KEY = 1' > src/calc/local_settings.py")
    environment = await project.prepared()
    assert targets(environment.files) == ["src/calc/_version.py"]
    assert targets(environment.built) == ["src/calc/_c.so", "src/calc/words.mo"]
    async with project.tree(environment) as tree:
        assert await check_output(tree, VERSION) == "5"


async def test_a_module_that_only_the_users_checkout_has_is_recognised(project):
    """AL-10: the message then says how it comes to worktrees."""
    await project.harness.sh("echo 'KEY = 1' > src/calc/local_settings.py")
    await project.harness.sh("mkdir -p lib/generated && touch lib/generated/names.js")
    paths = {
        "ModuleNotFoundError: No module named 'calc.local_settings'": "src/calc/local_settings.py",
        "No module named local_settings": "src/calc/local_settings.py",
        "ModuleNotFoundError: No module named 'requests'": None,
        "ModuleNotFoundError: No module named 'calc.fast'": None,
        "Error: Cannot find module './generated/names'\n": "lib/generated/names.js",
        "Error: Cannot find module '/elsewhere/lib/generated/names.js' imported from": "lib/generated/names.js",
        "Error: Cannot find module 'leftpad'": None,
        "": None,
    }
    assert {output: await ignored_module(project.harness.context.git, output) for output in paths} == paths


async def test_the_work_decides_which_generated_files_fit_it(project):
    """What was built from a source that changed would be wrong; what belongs to a package moves with it."""
    environment, base = await project.prepared(BUILD), await project.head()
    git = project.harness.context.git
    now = await project.commit({"src/calc/__init__.py": "from calc._version import version\nMORE = 1\n"})
    assert await fitting_environment(git, environment, base, now) == environment
    now = await project.commit({"src/calc/words.po": "msgid other\n"})
    fitting = await fitting_environment(git, environment, base, now)
    assert (targets(fitting.files), targets(fitting.built)) == (["src/calc/_version.py"], [])
    await project.harness.sh("mkdir lib && git mv src/calc lib/calc && git commit -qm moved")
    moved = await fitting_environment(git, environment, now, await project.head())
    assert targets(moved.files) == ["lib/calc/_version.py"]


def test_manifests_name_their_version_file():
    texts = {
        '[tool.setuptools_scm]\nwrite_to = "src/a/_version.py"': "pyproject.toml",
        '[tool.hatch.build.hooks.vcs]\nversion-file = "src/a/_version.py"': "pyproject.toml",
        '[tool.pdm.version]\nwrite_to = "src/a/_version.py"': "pyproject.toml",
        "setup(use_scm_version={'write_to': 'src/a/_version.py', 'root': '.'})": "setup.py",
        "[tool:setuptools_scm]\nwrite_to = src/a/_version.py\n": "setup.cfg",
    }
    found = {text: version_files_of(path, text) for text, path in texts.items()}
    assert found == {text: {"src/a/_version.py"} for text in texts}


def version_files_of(path, text):
    return version_files(ProjectFiles([path], lambda _: text.encode()))


def test_only_python_files_inside_the_repository_are_version_files():
    for name in ("../a_version.py", "/etc/_version.py", ".env", "src/version.txt"):
        assert version_files_of("pyproject.toml", f'[tool.setuptools_scm]\nwrite_to = "{name}"') == set()


def test_built_files_depend_on_all_sources_but_modules():
    may_be = {
        "src/calc/fast.pyx": True,
        "setup.py": True,
        "tools/generate.py": True,
        "src/calc/grammar.lark": True,
        "src/calc/words.py": False,
        "tests/test_words.py": False,
        "docs/index.rst": False,
        ".github/workflows/ci.yml": False,
        "pyproject.toml": False,
    }
    assert {path: may_be_input(path, {"src/calc"}) for path in may_be} == may_be
