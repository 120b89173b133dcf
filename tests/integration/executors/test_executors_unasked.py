"""What a user allowed a program in its own folder: hidden from it, or the program is refused."""

import pytest

from scaffold.core.errors import TrustError
from scaffold.core.executor_settings import ExecutorSettings
from scaffold.core.run_settings import SandboxSettings
from scaffold.executors.catalog import known_programs
from scaffold.executors.drill import require_drilled
from scaffold.executors.overview import known_executors
from scaffold.executors.program_zone import standing_permissions

ALLOWED = '{ // mine\n "tools": {"allowed": ["run_shell_command(npm)"]}, "url": "https://a//b" /* all */ }'


@pytest.fixture
def place(home, tmp_path):
    """Return a function that writes a file into a program's folder and returns the environment that has the program."""

    def write(name, file="settings.json", text=""):
        path = home / known_programs[name].credentials.removeprefix("~/") / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\necho 99.1\n")
        program.chmod(0o755)
        return {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(home)}

    return write


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("gemini", ALLOWED, "tools.allowed"),
        ("gemini", '{"mcpServers": {"a": {}, "b": {"trust": true}}}', "mcpServers.*.trust"),
        ("gemini", '{"policyPaths": ["/elsewhere"]}', "policyPaths"),
        ("qwen", '{"permissions": {"allow": ["Bash"], "ask": []}}', "permissions.allow"),
        ("gemini", '{"tools": {"allowed": [], "core": ["x"]}, "mcpServers": {"b": {"trust": false}}}', ""),
        ("gemini", "{", "tools.allowed"),
        ("claude", '{"permissions": {"allow": ["Bash"]}}', ""),  # it reads no settings of the user
    ],
)
def test_settings_that_allow_something_without_a_question_are_found(place, name, text, found):
    """BX-28: at every level, as the file has other settings, too."""
    environ = place(name, text=text)
    for level in ("bubblewrap", "landlock", None):
        shown = standing_permissions(known_programs[name], environ, level)
        assert [each.rpartition(": ")[2] for each in shown][:1] == [found][: bool(found)]


def test_rules_in_files_of_their_own_count_where_no_sandbox_hides_them(place):
    """BX-28"""
    environ = place("codex", "rules/default.rules", 'prefix_rule(pattern=["npm"], decision="allow")')
    shown = {level: standing_permissions(known_programs["codex"], environ, level) for level in ("bubblewrap", None)}
    assert shown["bubblewrap"] == []
    assert [path.rpartition("/")[2] for path in shown[None]] == ["rules"]
    assert standing_permissions(known_programs["codex"], environ, "landlock") == shown[None]


async def test_such_a_program_is_refused_before_it_is_drilled_and_the_list_says_why(place, tmp_path):
    """BX-28, AL-24: its drill may have passed before the user allowed something."""
    environ, told, root = place("gemini", text=ALLOWED), [], tmp_path / "repository"
    with pytest.raises(TrustError) as refused:
        await require_drilled(known_programs["gemini"], root, environ, SandboxSettings(), told.append)
    assert "settings.json: tools.allowed" in refused.value.what
    assert "executors.gemini.credentials" in refused.value.fix
    assert told == []
    found = {each.spec.name: each for each in await known_executors(ExecutorSettings(), environ, root)}
    assert [each.rpartition(": ")[2] for each in found["gemini"].unasked] == ["tools.allowed"]
