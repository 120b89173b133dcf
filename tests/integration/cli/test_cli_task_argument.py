"""A TASK that is a file, a mistyped command, or one word."""

import pytest

from scaffold.cli.task_argument import check_task, reject_command, reject_file
from scaffold.core.errors import UsageError

COMMANDS = ("status", "run", "check")


def test_a_word_like_a_command_is_no_task():
    """SC-19: it costs nothing, and names what was meant."""
    for word in ("statsu", "status", "stauts", "chek", "Check", " status "):
        with pytest.raises(UsageError) as refused:
            reject_command(word, "scaffold", COMMANDS)
        assert f"`scaffold {'check' if 'h' in word else 'status'}`" in refused.value.fix


def test_other_words_may_be_tasks():
    """SC-19: refusals are errors."""
    for task in ("fix", "status of the build", "refactor", "check it", ""):
        reject_command(task, "scaffold", COMMANDS)
    check_task("fix", yes=False)  # nobody can be asked


def test_a_file_is_no_task(tmp_path, monkeypatch):
    """SC-19: the error names the option that takes it."""
    monkeypatch.chdir(tmp_path)
    flags = {"prd.md": ["--spec"], "the plan.yaml": ["--plan", "--spec"], "Makefile": ["--spec"]}
    named = {}
    for name in flags:
        (tmp_path / name).write_text("x")
        with pytest.raises(UsageError) as refused:
            check_task(name, yes=True)
        named[name] = [flag for flag in ("--plan", "--spec") if flag in refused.value.fix]
    assert named == flags


def test_only_the_path_of_a_file_is_refused_as_one(tmp_path, monkeypatch):
    """SC-19: a task may be anything else, also what no path can be."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Makefile").write_text("x")
    refused = []
    for task in ("no such file.md", "a" * 5000, "nul \0 inside", ".", "Makefile"):
        try:
            reject_file(task, "")
        except UsageError:
            refused.append(task)
    assert refused == ["Makefile"]
