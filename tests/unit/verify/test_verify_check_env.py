"""The environment of checks."""

from pathlib import Path

from scaffold.core.gates import CheckEnvironment
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.verify.environment.check_env import check_environ, with_shown_folders

TREE = Path("/runs/tree")
ENVIRONMENT = CheckEnvironment(
    fingerprint="f",
    path=("{top}/.venv/bin", "/home/ann/tools"),
    variables={"GOMODCACHE": "/gold/go", "PYTHONPATH": "{top}/src:{top}"},
    shown=("/gold",),
)


def test_the_checkouts_own_programs_come_first_and_what_misleads_is_dropped():
    """AL-9: the environment of checks is fixed, whatever the user's shell was like."""
    shell = {"PATH": "/usr/bin", "HOME": "/home/ann", "PYTHONPATH": "/home/ann/other", "VIRTUAL_ENV": "/home/ann/v"}
    shell |= {"NODE_PATH": "/home/ann/n", "NODE_OPTIONS": "--require x", "PYTHONHOME": "/p", "CONDA_PREFIX": "/c"}
    assert check_environ(ENVIRONMENT, TREE, shell) == {
        "PATH": "/runs/tree/.venv/bin:/home/ann/tools:/usr/bin",
        "HOME": "/home/ann",
        "PYTHONHASHSEED": "0",
        "GOMODCACHE": "/gold/go",
        "PYTHONPATH": "/runs/tree/src:/runs/tree",
    }


def test_made_twice_it_is_another_checkouts_only_by_its_paths():
    first = check_environ(ENVIRONMENT, TREE, {"PATH": "/usr/bin"})
    other = check_environ(ENVIRONMENT, Path("/other"), {"PATH": "/usr/bin"})
    assert {name: value.replace("/other", "/runs/tree") for name, value in other.items()} == first


def test_without_an_environment_it_is_what_children_inherit():
    assert check_environ(None, TREE, {"PATH": "/usr/bin", "A": "b"}) == {"PATH": "/usr/bin", "A": "b"}


def test_walls_show_what_checks_read_elsewhere():
    walls = SandboxSpec("bubblewrap", Confinement(writable=(TREE,), temporary=Path("/t"), readable=(Path("/git"),)))
    shown = with_shown_folders(ENVIRONMENT, walls)
    assert shown is not None
    assert shown.confinement.readable == (Path("/git"), Path("/gold"))
    assert (with_shown_folders(None, walls), with_shown_folders(ENVIRONMENT, None)) == (walls, None)
