"""The environment of checks."""

from pathlib import Path

from scaffold.core.proof.gates import CheckEnvironment
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.verify.environment.check_env import check_environ, with_shown_folders

TREE = Path("/runs/tree")
ENVIRONMENT = CheckEnvironment(
    fingerprint="f",
    path=("{top}/.venv/bin", "/home/ann/tools"),
    variables={"GOMODCACHE": "/gold/go", "PYTHONPATH": "{top}/src:{top}"},
    shown=("/gold",),
)


def test_programs_and_sources_of_the_checkout_come_first():
    """AL-9: an activated environment does not count if the checks have their own."""
    shell = {"PATH": "/usr/bin", "HOME": "/home/ann", "PYTHONPATH": "/home/ann/other", "VIRTUAL_ENV": "/home/ann/v"}
    shell |= {"JAVA_HOME": "/opt/java", "CONDA_PREFIX": "/c"}
    assert check_environ(ENVIRONMENT, TREE, shell) == {
        "PATH": "/runs/tree/.venv/bin:/home/ann/tools:/usr/bin",
        "HOME": "/home/ann",
        "JAVA_HOME": "/opt/java",
        "PYTHONHASHSEED": "0",
        "GOMODCACHE": "/gold/go",
        "PYTHONPATH": "/runs/tree/src:/runs/tree:/home/ann/other",
    }


def test_an_activated_environment_is_that_of_checks_without_their_own():
    """AL-9"""
    shell = {"PATH": "/home/ann/v/bin", "VIRTUAL_ENV": "/home/ann/v"}
    assert check_environ(CheckEnvironment(fingerprint="f"), TREE, shell) == shell | {"PYTHONHASHSEED": "0"}


def test_environments_of_two_checkouts_differ_only_in_paths():
    first = check_environ(ENVIRONMENT, TREE, {"PATH": "/usr/bin"})
    other = check_environ(ENVIRONMENT, Path("/other"), {"PATH": "/usr/bin"})
    assert {name: value.replace("/other", "/runs/tree") for name, value in other.items()} == first


def test_without_a_prepared_environment_checks_inherit_that_of_children():
    assert check_environ(None, TREE, {"PATH": "/usr/bin", "A": "b"}) == {"PATH": "/usr/bin", "A": "b"}


def test_the_confinement_shows_folders_that_checks_read_elsewhere():
    walls = SandboxSpec("bubblewrap", Confinement(writable=(TREE,), temporary=Path("/t"), readable=(Path("/git"),)))
    shown = with_shown_folders(ENVIRONMENT, walls)
    assert shown is not None
    assert shown.confinement.readable == (Path("/git"), Path("/gold"))
    assert (with_shown_folders(None, walls), with_shown_folders(ENVIRONMENT, None)) == (walls, None)


def test_a_link_in_place_of_an_environment_shows_nothing_else(tmp_path):
    """BX-9, RA-14: an agent could have put it there for the next run."""
    for name in (".ssh", ".config", "environment"):
        (tmp_path / name).mkdir()
    (tmp_path / "environment" / "pyvenv.cfg").touch()
    walls = SandboxSpec("bubblewrap", Confinement(writable=(), temporary=tmp_path))
    link = tmp_path / ".venv"
    environment = CheckEnvironment(fingerprint="f", shown=(str(link),))
    for target, shown in ((".ssh", ()), (".config", ()), ("environment", (tmp_path.resolve() / "environment",))):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        found = with_shown_folders(environment, walls)
        assert found is not None
        assert found.confinement.readable == shown
