"""The proof that checks import the checkout's code, with real interpreters, virtual environments and installations."""

import pytest
from inline_snapshot import snapshot

from integration.verify.builders import PYTHON, EnvironmentSetup, add_venv, check_output
from scaffold.core.proof.gates import CheckEnvironment
from scaffold.host.child_environment import child_environment
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.environment.check_env import check_environ
from scaffold.verify.environment.import_proof import prove_imports

CODE = {"src/calc/__init__.py": "WHO = 'repository'\n", ".gitignore": ".venv\nnode_modules\n"}
WHO = "python -c 'import calc; print(calc.__file__)'"
FIRST_OF_ALL = """\
import importlib.util, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "calc":
            return importlib.util.spec_from_file_location(name, "{place}/__init__.py")
sys.meta_path.insert(0, Finder)
"""


@pytest.fixture
async def project(harness, tmp_path):
    """A Python repository whose user has a virtual environment in the checkout."""
    made = EnvironmentSetup(harness, tmp_path)
    await made.commit(CODE)
    add_venv(made.repo)
    return made


def packages(project):
    return next((project.repo / ".venv" / "lib").glob("*/site-packages"))


async def proven(project, tree, environment):
    """Run the proof, and return the tree that checks then use."""
    found = await prove_imports(environment, tree)
    assert isinstance(found, CheckEnvironment), found
    tree.environ.update(check_environ(found, tree.git.cwd, child_environment(project.environ)))
    return found


async def test_the_users_editable_installation_is_overridden_by_the_checkout(project):
    """A worktree linked to it would test the wrong code, and pass."""
    (packages(project) / "_calc.pth").write_text(f"{project.repo}/src\n")
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        outside = tree.git.cwd.parent
        assert await check_output(tree, WHO, cwd=outside) == f"{project.repo}/src/calc/__init__.py"
        mended = await proven(project, tree, environment)
        assert await check_output(tree, WHO, cwd=outside) == f"{tree.git.cwd}/src/calc/__init__.py"
        assert mended.fingerprint != environment.fingerprint
        assert await prove_imports(mended, tree) == mended


async def test_an_installation_that_cannot_be_overridden_is_named(project):
    """environment_not_ready: the module, where it was found, and the fix."""
    place = project.repo / "src" / "calc"
    (packages(project) / "_calc_finder.py").write_text(FIRST_OF_ALL.format(place=place))
    (packages(project) / "_calc.pth").write_text("import _calc_finder\n")
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        found = await prove_imports(environment, tree)
    assert isinstance(found, NotReady)
    assert found.what.replace(str(place), "PLACE") == snapshot(
        "checks would load calc from PLACE/__init__.py, not from the checkout being checked"
    )
    assert found.fix == snapshot(
        "let Scaffold install the dependencies of each checkout (`setup` in the configuration, `scaffold trust`), "
        "or remove that installation"
    )


async def test_an_installed_copy_is_not_the_checkouts_code(project):
    """Not even in the checkout's own virtual environment: it stays the base's code."""
    install = (f"'{PYTHON}' -m venv --without-pip .venv", "cp -r src/calc .venv/lib/$(ls .venv/lib)/site-packages/")
    await project.harness.sh("rm -r .venv")
    environment = await project.prepared(*install)
    async with project.tree(environment) as tree:
        assert ".venv" in await check_output(tree, WHO)
        await proven(project, tree, environment)
        assert await check_output(tree, WHO) == f"{tree.git.cwd}/src/calc/__init__.py"


async def test_sources_that_are_not_installed_are_found(project):
    """Checks do not see a user's installation that the sandbox hides."""
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        await proven(project, tree, environment)
        assert await check_output(tree, WHO, cwd=tree.git.cwd.parent) == f"{tree.git.cwd}/src/calc/__init__.py"


async def test_without_a_conflict_the_environment_is_unchanged(project):
    await project.harness.sh("git rm -rq src; git commit -qm flat")
    (packages(project) / "other.py").write_text("")
    await project.commit({"json.py": "a name of the standard library", "pages/__init__.py": ""})
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        assert await prove_imports(environment, tree) == environment


async def test_a_flat_repository_layout_is_supported(project):
    await project.harness.sh("git rm -rq src; git commit -qm flat")
    await project.commit({"flat/__init__.py": "", "flat/inner.py": ""})
    (packages(project) / "_flat.pth").write_text(f"{project.repo}\n")
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        mended = await proven(project, tree, environment)
        assert await check_output(tree, "python -c 'import flat; print(flat.__file__)'", cwd=tree.git.cwd.parent) == (
            f"{tree.git.cwd}/flat/__init__.py"
        )
    assert mended.variables["PYTHONPATH"] == "{top}"


async def test_an_interpreter_that_cannot_answer_is_not_trusted(project):
    (packages(project) / "sitecustomize.py").write_text("print('{}'); import os; os._exit(0)\n")
    (packages(project) / "_calc.pth").write_text("import os; os.write(2, b'broken here'); os._exit(3)\n")
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        found = await prove_imports(environment, tree)
    assert isinstance(found, NotReady)
    assert found.what.endswith("/python could not report where it imports this repository's code from")
    assert found.detail == "broken here"


async def test_without_modules_no_interpreter_is_started(harness, tmp_path):
    project = EnvironmentSetup(harness, tmp_path)
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        tree.environ["PATH"] = "/nowhere"
        assert await prove_imports(environment, tree) == environment


async def test_a_linked_node_package_outside_the_checkout_is_named(project):
    """npm link: the user's checkout would be tested."""
    await project.harness.sh("git rm -rq src; git commit -qm flat")
    await project.commit({"package.json": '{"name": "web"}', "own/package.json": '{"name": "@web/own"}'})
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        link = tree.git.cwd / "node_modules" / "@web" / "own"
        link.parent.mkdir(parents=True)
        link.symlink_to("../../own")
        assert await prove_imports(environment, tree) == environment
        link.unlink()
        link.symlink_to(project.repo / "own")
        found = await prove_imports(environment, tree)
    assert isinstance(found, NotReady)
    assert f"@web/own from {project.repo}/own" in found.what


async def test_arbitrary_manifests_never_name_outside_paths(project):
    await project.harness.sh("git rm -rq src; git commit -qm flat")
    await project.commit(
        {
            "a/package.json": '{"name": "../../../etc"}',
            "b/package.json": '{"name": "/etc"}',
            "c/package.json": "[1]",
            "d/package.json": "{",
            "e/package.json": '{"name": 5}',
        }
    )
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        assert await prove_imports(environment, tree) == environment


async def test_a_python_without_the_names_of_its_standard_library_answers_as_well(project):
    """AL-10: before Python 3.10 the interpreter does not list them; a module of that name is no foreign one."""
    await project.commit({"types.py": "", "select.py": "", "sys.py": "", "colorsys/__init__.py": ""})
    (packages(project) / "older.pth").write_text("import sys; vars(sys).pop('stdlib_module_names', None)\n")
    (packages(project) / "_calc.pth").write_text(f"{project.repo}/src\n")
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        assert (
            await check_output(tree, "python -c 'import sys; print(hasattr(sys, \"stdlib_module_names\"))'") == "False"
        )
        await proven(project, tree, environment)
        assert await check_output(tree, WHO, cwd=tree.git.cwd.parent) == f"{tree.git.cwd}/src/calc/__init__.py"
