"""Commands that the user runs with `!`."""

import os

from scaffold.session.user_command import is_user_command, run_user_command, user_command


def test_only_a_line_that_begins_with_an_exclamation_mark_is_one():
    """RA-18."""
    commands = {"!ls": "ls", "! make test ": "make test", "!a\nb": "a\nb", "!": None, " !ls": None}
    assert {line: user_command(line) if is_user_command(line) else None for line in commands} == commands


async def test_it_runs_in_the_users_environment_and_its_output_is_in_order(tmp_path):
    """RA-18: without a sandbox."""
    environ = {**os.environ, "MINE": "yes", "SHELL": "/usr/bin/fish"}
    answer = await run_user_command("echo $MINE; echo bad >&2; touch there; exit 3", tmp_path, environ)
    assert answer.failed
    assert answer.content.startswith("exit code 3")
    assert answer.content.endswith("--- output\nyes\nbad")
    assert (tmp_path / "there").exists()
