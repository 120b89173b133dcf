"""The environment of our helper programs, which run outside of the sandbox."""

from scaffold.tools.workspace import Workspace


def test_a_helper_loads_no_code_from_the_workspace(tmp_path):
    """BX-9, RA-14: neither a program nor a library nor a module that an agent wrote."""
    env = {
        "PATH": f"{tmp_path}/.venv/bin:bin:/usr/bin",
        "HOME": "/home/ann",
        "PYTHONPATH": "src",
        "LD_LIBRARY_PATH": f"{tmp_path}/lib",
        "RIPGREP_CONFIG_PATH": ".ripgreprc",
    }
    own = Workspace(tmp_path, env).own_env
    assert own == {"PATH": "/usr/bin", "HOME": "/home/ann", "PYTHONDONTWRITEBYTECODE": "1"}
