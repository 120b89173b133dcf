"""The environment of commands: the user's, without secrets."""

import os

from inline_snapshot import snapshot

from scaffold.policy.secret.command_environment import (
    command_environment,
    kept_for_commands,
    left_out_notice,
    relocated,
    secret_variables,
)
from scaffold.policy.secret.sources import credential_paths

ORDINARY = {
    "PYTHONPATH": "src:lib",
    "JAVA_HOME": "/opt/java",
    "CC": "clang",
    "CFLAGS": "-O2 -g",
    "DJANGO_SETTINGS_MODULE": "project1.settings.production2",
    "LD_LIBRARY_PATH": "/opt/lib",
    "NODE_OPTIONS": "--max-old-space-size=8192",
    "CONDA_PREFIX": "/opt/conda/envs/project",
    "MAX_TOKENS": "4096",
    "TOKENIZERS_PARALLELISM": "false",
    "USE_AUTH": "true",
    "DATABASE_URL": "postgres://localhost/test",
    "AWS_PROFILE": "work",
    "RUSTFLAGS": "-C target-cpu=native",
    "NO_COLOR": "1",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
}
SECRET = {
    "OPENAI_API_KEY": "x",
    "AWS_ACCESS_KEY_ID": "AKIA",
    "DB_PASSWORD": "hunter2",
    "GITHUB_TOKEN": "t",
    "DATABASE_URL_2": "postgres://ann:hunter2hunter2@localhost/test",
    "MAVEN_OPTS": "-Dx=ghp_" + "a1" * 20,
    "SSH_AUTH_SOCK": "/run/agent",
    "KUBECONFIG": "/home/ann/kube",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/ann/key.json",
}
MISLEADING = (
    *("GIT_DIR", "GIT_AUTHOR_DATE", "GIT_SSH_COMMAND", "PWD", "BASH_ENV", "PYTHONHOME", "PYTHONSTARTUP"),
    *("SCAFFOLD_HOME", "CDPATH", "SHELLOPTS", "GLOBIGNORE", "GREP_OPTIONS"),
)


def test_a_command_gets_the_users_environment():
    """BX-9: what builds and tests need."""
    got = command_environment(ORDINARY | {"PATH": "/nowhere"})
    assert got == ORDINARY | {"PATH": "/nowhere", "PYTHONDONTWRITEBYTECODE": "1"}


def test_a_command_gets_no_secret_unless_the_user_names_it():
    """BX-9, RA-14."""
    assert SECRET.keys() & command_environment(SECRET).keys() == set()
    assert {name: command_environment(SECRET, names=[name])[name] for name in SECRET} == SECRET


def test_variables_that_mislead_a_command_are_not_passed_and_not_worth_a_word():
    """AL-28"""
    assert [name for name in MISLEADING if name in command_environment({name: "x"}, names=[name])] == []
    assert [name for name in MISLEADING if secret_variables({name: "x"}, [name])] == []


def test_a_virtual_environment_is_passed_if_it_exists(tmp_path):
    (tmp_path / "bin").mkdir()
    assert "VIRTUAL_ENV" in command_environment({"VIRTUAL_ENV": str(tmp_path)})
    assert "VIRTUAL_ENV" not in command_environment({"VIRTUAL_ENV": str(tmp_path / "gone")})


def test_what_is_left_out_is_told_once(tmp_path):
    """BX-9, BX-13: again only if it has changed."""
    told = tmp_path / "deep" / "told"
    assert left_out_notice(ORDINARY, told=told) is None
    notice = left_out_notice({"A_TOKEN": "x", "B_KEY": "y", "CC": "z"}, ["B_KEY"], told=told)
    assert notice == snapshot("commands do not get A_TOKEN; `scaffold config environment NAME,...` passes variables on")
    assert left_out_notice({"A_TOKEN": "other"}, told=told) is None
    assert "C_TOKEN" in (left_out_notice({"A_TOKEN": "x", "C_TOKEN": "x"}, told=told) or "")


def test_files_with_credentials_that_variables_name_are_found(tmp_path):
    """BX-9, RA-14: wherever they are."""
    for name in ("key.json", "kube", "other"):
        (tmp_path / name).touch()
    environ = {
        "GOOGLE_APPLICATION_CREDENTIALS": f"{tmp_path}/key.json",
        "KUBECONFIG": f"{tmp_path}/kube:{tmp_path}/missing",
        "MY_TOKEN_FILE": f"{tmp_path}/other",
        "AUTH_DIR": str(tmp_path),
        "CC": f"{tmp_path}/other",
    }
    assert {path.name for path in credential_paths(environ)} == {"key.json", "kube", "other"}


def test_paths_in_the_checkout_become_those_of_the_worktree(tmp_path):
    """AL-9, BX-4: the user's PYTHONPATH must not make a check import the user's own files."""
    top, worktree = tmp_path / "top", tmp_path / "worktree"
    (worktree / "src").mkdir(parents=True)
    given = {
        "PYTHONPATH": f"{top}/src{os.pathsep}{top}/missing{os.pathsep}/other",
        "OPTS": f"-I{top}/src --dir={top}/src -x {top}",
        "NEAR": f"{top}-2/src",
        "PATH": f"{top}/src",
    }
    assert relocated(given, top, worktree, fixed=("PATH",)) == {
        "PYTHONPATH": f"{worktree}/src{os.pathsep}{top}/missing{os.pathsep}/other",
        "OPTS": f"-I{top}/src --dir={worktree}/src -x {worktree}",
        "NEAR": f"{top}-2/src",
        "PATH": f"{top}/src",
    }


def test_a_process_of_ours_passes_on_what_would_make_it_load_code():
    """BX-9, RA-14: a subagent's process runs outside of the sandbox, beside files that an agent wrote."""
    given = {"PYTHONPATH": "src", "LD_PRELOAD": "./x.so", "PYTHONWARNINGS": "error", "CC": "clang", "PATH": "/bin"}
    ours = kept_for_commands(command_environment(given))
    assert not {"PYTHONPATH", "LD_PRELOAD", "PYTHONWARNINGS"} & set(ours)
    assert command_environment(ours) == command_environment(given)
