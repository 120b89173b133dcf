"""Known secrets are read from the environment, the workspace and the home."""

import os

import pytest

from scaffold.agent.journal import JournalFile
from scaffold.host.clock import SystemClock
from scaffold.host.contained_path import ContainedPath
from scaffold.policy.secret.sources import redactor_for


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home" / ".aws").mkdir(parents=True)
    (tmp_path / "folder").mkdir()
    return tmp_path / "home"


def test_secrets_of_environment_folder_and_home_are_known(tmp_path, home):
    """BX-9: keys, `.env` files, logins; each under the name it has there."""
    folder = tmp_path / "folder"
    (folder / ".env").write_text("SERVICE_SECRET=from-env-file\n")
    (folder / ".env.local").write_text("SERVICE_SECRET=from-local-file\n")
    (home / ".aws" / "credentials").write_text("[default]\naws_session_token = from-the-home\n")
    (home / ".git-credentials").write_text("https://me:from-git-login@host\n")
    redactor = redactor_for({"MY_TOKEN": "from-environment", "HOME": str(home), "LANG": "C.UTF-8-lang"}, folder)
    text = "from-environment from-env-file from-local-file from-the-home from-git-login C.UTF-8-lang"
    assert redactor.clean(text) == (
        "[redacted:MY_TOKEN] [redacted:SERVICE_SECRET] [redacted:SERVICE_SECRET] [redacted:aws_session_token] "
        "[redacted:login-1] C.UTF-8-lang"
    )


def test_templates_and_unreadable_files_contain_no_secret(tmp_path, home):
    """BX-9: an example is no secret; a folder, a pipe and a dead link are skipped."""
    folder = tmp_path / "folder"
    (folder / ".env.example").write_text("SERVICE_SECRET=put-yours-here\n")
    (folder / ".env.d").mkdir()
    os.mkfifo(folder / ".env.pipe")
    (folder / ".env.dead").symlink_to("nowhere")
    (folder / ".env.bytes").write_bytes(b"\xff\xfeA_KEY=\x00\x01binary-ish\n")
    text = "put-yours-here"
    assert redactor_for({"HOME": str(home)}, folder).clean(text) is text
    assert redactor_for({}, tmp_path / "gone").clean(text) is text


def test_a_journal_contains_no_secret(tmp_path):
    """BX-9: in no field of any entry."""
    path = tmp_path / "log.jsonl"
    redactor = redactor_for({"MY_TOKEN": "canary-7f3e6a1d"}, tmp_path)
    journal = JournalFile(
        ContainedPath(tmp_path, path.name), clock=SystemClock(), fields={"run": "r"}, redactor=redactor
    )
    journal.note("prompt", text="use canary-7f3e6a1d")
    journal.note("tool_call", id="c", name="shell", args={"command": ["echo", "canary-7f3e6a1d"]})
    lines = path.read_text()
    assert "canary" not in lines
    assert lines.count("[redacted:MY_TOKEN]") == 2


def test_secrets_in_files_at_any_depth_are_redacted(tmp_path):
    """BX-9, RA-14: and in git's own settings, and in files that variables name."""
    files = {
        "a/b/.env.local": "API_KEY=canary-one-4f8e\n",
        "config/master.key": "9f86d081884c7d659a2feaa0c55ad015\n",
        ".git/config": "[remote]\n\turl = https://me:canary-three@example.invalid/x\n",
        "home/.m2/settings.xml": "<server><password>canary-four</password></server>\n",
        "kube": "users:\n- user:\n    token: canary-five\n",
        "a/.env.example": "API_KEY=not-a-secret-9d3c\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    redactor = redactor_for({"HOME": f"{tmp_path}/home", "KUBECONFIG": f"{tmp_path}/kube"}, tmp_path)
    secrets = "canary-one-4f8e 9f86d081884c7d659a2feaa0c55ad015 canary-three canary-four canary-five"
    assert "canary" not in redactor.clean(secrets)
    assert "9f86" not in redactor.clean(secrets)
    assert redactor.clean("not-a-secret-9d3c") == "not-a-secret-9d3c"
