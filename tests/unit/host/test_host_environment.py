"""The environment of child processes."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from scaffold.host.child_environment import agent_variables, child_environment
from scaffold.host.process.command_runner import Containment, run_command

OURS = str(Path(sys.executable).parent)
PYTHON = Path(sys.executable).resolve()


def test_a_child_gets_the_variables_it_needs():
    names = [
        "HOME",
        "LANG",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
        "SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
        "https_proxy",
        "NO_PROXY",
    ]
    given = dict.fromkeys(names, "x")
    assert given.items() <= child_environment(given).items()


def test_a_child_never_gets_keys_or_misleading_variables():
    names = [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "PYTHONHOME",
        "GIT_DIR",
        "AWS_SECRET_ACCESS_KEY",
    ]
    assert [name for name in names if name in child_environment({name: "x"})] == []


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="Scaffold is installed for the whole system")
def test_our_own_programs_are_never_on_path():
    """AL-9: our type checker and our plugins would otherwise judge the user's project."""
    assert child_environment({"PATH": "/nowhere"})["PATH"] == "/nowhere"
    assert child_environment({"PATH": f"{OURS}:/nowhere:{OURS}/"})["PATH"] == "/nowhere"
    assert child_environment({"PATH": f"{OURS}:/nowhere", "VIRTUAL_ENV": "/other"})["PATH"] == "/nowhere"


def test_a_virtual_environment_that_the_user_activated_stays_on_path():
    """AL-9: the project is installed there, together with Scaffold."""
    activated = {"PATH": f"{OURS}:/usr/bin", "VIRTUAL_ENV": sys.prefix}
    assert child_environment(activated)["PATH"] == f"{OURS}:/usr/bin"


async def test_python_is_python3_where_only_that_is_on_path(tmp_path):
    """AL-9: a bare Debian and macOS have no `python`, which plans, pages and scripts of others name."""
    (tmp_path / "python3").symlink_to(PYTHON)
    environ = child_environment({"PATH": str(tmp_path)})
    command = ["/bin/sh", "-c", "python -c 'print(1 + 1)'"]
    done = await run_command(command, cwd=tmp_path, env=environ, timeout_s=60, containment=Containment())
    assert (done.stdout, done.stderr) == (b"2\n", b"")
    assert child_environment(environ) == environ
    (tmp_path / "python").symlink_to("python3")
    assert shutil.which("python", path=child_environment({"PATH": str(tmp_path)})["PATH"]) == f"{tmp_path}/python"
    assert child_environment({"PATH": f"{tmp_path}/"})["PATH"] == f"{tmp_path}/"


def test_without_a_path_the_system_default_is_searched_and_no_byte_code_is_written():
    assert child_environment({})["PATH"].startswith(os.defpath)
    assert child_environment({})["PYTHONDONTWRITEBYTECODE"] == "1"


def test_variables_named_by_the_user_are_inherited_too():
    """AL-28: variables named in the user's own configuration."""
    given = {"OPENAI_API_KEY": "x", "AWS_PROFILE": "y", "OTHER": "z"}
    env = child_environment(given, names=("OPENAI_API_KEY", "AWS_PROFILE", "MISSING"))
    assert {name: env.get(name) for name in (*given, "MISSING")} == given | {"OTHER": None, "MISSING": None}


def test_misleading_variables_are_never_inherited():
    names = ["GIT_DIR", "GIT_CONFIG_GLOBAL", "PYTHONSTARTUP", "PYTHONHOME"]
    assert [name for name in names if name in child_environment({name: "x"}, names=(name,))] == []


def test_attempt_ids_are_valid_in_container_names():
    """DR-16."""
    assert agent_variables("k3x") == {"SCAFFOLD_AGENT_ID": "k3x", "COMPOSE_PROJECT_NAME": "ralph_agent_k3x"}
    assert agent_variables("k3x/sub-1")["COMPOSE_PROJECT_NAME"] == "ralph_agent_k3x-sub-1"


def test_variables_of_the_caller_win():
    env = child_environment({"HOME": "/a", "LANG": "de"}, {"HOME": "/b", "SCAFFOLD_RUN": "r1"})
    assert (env["HOME"], env["LANG"], env["SCAFFOLD_RUN"]) == ("/b", "de", "r1")
