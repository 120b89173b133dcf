import pytest

from scaffold.policy.shell.readonly_arguments import ReadAccess
from scaffold.policy.shell.readonly_git import ConfiguredProgram, analyze_git, any_program_setting
from scaffold.policy.shell.script import Word


def read(command: str, *settings: str) -> ReadAccess | ConfiguredProgram | str:
    return analyze_git(tuple(map(Word, command.split())), settings)


@pytest.mark.parametrize(
    ("setting", "runs", "runs_not"),
    [
        ("core.fsmonitor", "status", "log"),
        ("core.hookspath", "status", "log"),
        ("hook.post-index-change", "status", "log"),
        ("core.worktree", "diff", "log"),
        ("filter.x.clean", "blame f", "rev-parse HEAD"),
        ("filter.x.process", "diff", "branch"),
        ("filter.a.b.smudge", "status", "branch"),
        ("diff.external", "diff", "status"),
        ("diff.x.textconv", "show HEAD", "status"),
        ("diff.x.command", "log -p", "status"),
        ("log.showsignature", "log", "status"),
        ("gpg.program", "log --format=%G?", "log"),
        ("core.pager", "log", ""),
        ("pager.log", "log", ""),
        ("extensions.partialclone", "cat-file -p HEAD", ""),
        ("remote.origin.promisor", "show HEAD", ""),
    ],
)
def test_a_setting_that_names_a_program_counts_if_git_runs_it(setting, runs, runs_not):
    """RA-14."""
    assert read(runs, setting) == ConfiguredProgram(setting)
    assert isinstance(read(runs), ReadAccess)
    if runs_not:
        assert isinstance(read(runs_not, setting), ReadAccess)


def test_other_settings_run_nothing():
    """RA-14."""
    settings = ("user.name", "core.bare", "remote.origin.url", "hook.pre-commit", "branch.main.merge", "alias.st")
    assert isinstance(read("status", *settings), ReadAccess)
    assert any_program_setting(settings) is None


def test_an_allow_rule_does_not_cover_a_program_named_in_a_setting():
    """RA-14."""
    assert any_program_setting(("user.name", "Filter.lfs.clean")) == "Filter.lfs.clean"
    assert any_program_setting(("merge.x.driver",)) == "merge.x.driver"


def test_a_file_in_a_revision_is_a_path_too():
    """RA-14: `HEAD:.env` is read like `.env`."""
    assert read("show HEAD:.env") == ReadAccess((Word("HEAD:.env"), Word(".env")))


def test_a_value_is_never_a_flag_in_disguise():
    """RA-14: `-M` takes no value from the next word."""
    assert isinstance(read("diff -M --output=x"), str)
    assert isinstance(read("log -n --output=x"), str)
    assert isinstance(read("diff -U --output=x"), str)
