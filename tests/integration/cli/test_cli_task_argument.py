"""A TASK that is a file, a mistyped command, or one word."""

import pytest

from scaffold.cli.task_argument import check_task, reject_command, reject_file
from scaffold.core.errors import UsageError

COMMANDS = ("status", "run", "check")


def refused(check, *args):
    """Return whether a check of the task is an error of the user's."""
    try:
        check(*args)
    except UsageError:
        return True
    return False


@pytest.mark.parametrize("word", ["statsu", "status", "stauts", "chek", "Check", " status "])
def test_a_word_like_a_command_is_no_task(word):
    """SC-19: it costs nothing, and names what was meant."""
    with pytest.raises(UsageError, match="looks like a command") as refused:
        reject_command(word, "scaffold", COMMANDS)
    meant = "check" if "h" in word else "status"
    assert f"`scaffold {meant}`" in refused.value.fix


@pytest.mark.parametrize("task", ["fix", "status of the build", "refactor", "check it", ""])
def test_other_words_may_be_tasks(task):
    """SC-19: refusals are errors."""
    assert not refused(reject_command, task, "scaffold", COMMANDS)


@pytest.mark.parametrize(
    ("name", "flags"), [("prd.md", ["--spec"]), ("the plan.yaml", ["--plan", "--spec"]), ("Makefile", ["--spec"])]
)
def test_a_file_is_no_task(tmp_path, monkeypatch, name, flags):
    """SC-19: the error names the option that takes it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("x")
    with pytest.raises(UsageError, match="is the name of a file") as refused:
        check_task(name, yes=True)
    assert [flag for flag in ("--plan", "--spec") if flag in refused.value.fix] == flags


@pytest.mark.parametrize("task", ["no such file.md", "a" * 5000, "nul \0 inside", "."])
def test_what_is_no_file_is_no_file(task):
    assert not refused(reject_file, task, "")


def test_one_word_is_a_task_where_nobody_can_be_asked():
    check_task("fix", yes=False)
