import json
import os
import zipfile

import pytest

from scaffold.tools.command.packages import pip_install, pip_list
from scaffold.tools.command.shell import python
from scaffold.tools.workspace import Workspace


@pytest.fixture
def index(tmp_path):
    """A folder with wheels: one that depends on another, and one for a specific platform."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, "alpha_pure", "py3-none-any", needs="beta_pure")
    wheel(folder, "beta_pure", "py2.py3-none-any")
    wheel(folder, "gamma_bound", "cp311-cp311-manylinux2014_x86_64")
    wheel(folder, "delta_pure", "py3-none-any", needs="gamma_bound")
    return folder


def wheel(folder, name, tag, needs=None):
    inside = f"{name}-1.0.dist-info"
    require = f"Requires-Dist: {needs}\n" if needs else ""
    with zipfile.ZipFile(folder / f"{name}-1.0-{tag}.whl", "w") as file:
        file.writestr(f"{name}.py", f"WHO = {name!r}\n")
        file.writestr(f"{inside}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{require}")
        file.writestr(f"{inside}/WHEEL", f"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: {tag}\n")
        file.writestr(f"{inside}/RECORD", f"{name}.py,,\n{inside}/METADATA,,\n{inside}/WHEEL,,\n{inside}/RECORD,,\n")


@pytest.fixture
def tools(index, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    workspace = Workspace(folder, env)
    packages = tmp_path / "data" / "packages"
    made = (pip_install(workspace, packages), pip_list(packages), python(workspace, packages=packages))
    return {tool.name: tool for tool in made}


@pytest.mark.slow
async def test_pure_packages_are_installed_with_their_dependencies(tools, tmp_path):
    """RA-4."""
    output = await tools["pip_install"].run({"packages": ["alpha-pure >= 1, < 2"]})
    assert not output.failed, output
    listed = json.loads((await tools["pip_list"].run({"name": "PURE"})).content)
    assert listed == [
        {"name": "alpha_pure", "version": "1.0", "added": True},
        {"name": "beta_pure", "version": "1.0", "added": True},
    ]
    output = await tools["python"].run({"code": "import alpha_pure, beta_pure; print(beta_pure.WHO)"})
    assert "beta_pure" in output.content
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gamma_bound", "delta_pure", "none_such"])
async def test_a_platform_specific_package_is_not_installed(tools, tmp_path, name):
    """RA-4."""
    output = await tools["pip_install"].run({"packages": [name]})
    assert output.failed
    assert "No matching distribution" in output.content
    assert list((tmp_path / "data" / "packages").iterdir()) == []


async def test_only_names_and_versions_reach_pip(tools, tmp_path):
    urls = ["--index-url=http://x", "x @ http://y", "git+https://x/y"]
    for name in (*urls, "-e .", "./alpha", "a/b", "x.whl", "x; os_name", "", "a b"):
        output = await tools["pip_install"].run({"packages": ["alpha_pure", name]})
        assert (name, output.failed, repr(name) in output.content) == (name, True, True)
    assert (await tools["pip_install"].run({"packages": []})).failed
    assert not (tmp_path / "data").exists()


async def test_packages_of_our_own_python_are_listed_too(tools):
    listed = json.loads((await tools["pip_list"].run({})).content)
    assert {"msgspec"} <= {each["name"] for each in listed if not each["added"]}
    listed = json.loads((await tools["pip_list"].run({"name": "pyyaml"})).content)
    assert {"PyYAML"} <= {each["name"] for each in listed}


async def test_a_folder_that_cannot_be_created_is_a_failed_result(tools, tmp_path):
    (tmp_path / "data").touch()
    output = await tools["pip_install"].run({"packages": ["alpha_pure"]})
    assert output.failed
    assert "is not writable" in output.content
